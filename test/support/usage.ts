// One app's usage, as an admission tells it.

import type { App } from '../../src/apps/app.ts'
import type { Admission } from '../../src/limits/admission.ts'
import type { Usage } from '../../src/limits/limiter.ts'

export async function usageOf(admission: Admission, app: App): Promise<Usage> {
  const usages = await admission.usages([app])
  if (usages === 'away') throw new Error('the counters cannot be read now')
  return usages[0]
}
