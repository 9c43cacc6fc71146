// For an auditor whose alerts are not looked at: it knows no app.

import type { AuditorOptions } from '../../src/audit/auditor.ts'

export const NO_ALERTS: Pick<AuditorOptions, 'askLimits' | 'onAlert'> = {
  askLimits: async (appIds) => appIds.map(() => null),
  onAlert: () => {},
}
