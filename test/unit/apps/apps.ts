// Apps for the tests of admit: a plain one, and the parts a test wants to differ.

import type { App } from '../../../src/apps/app.ts'

export function anApp(parts: Partial<App> = {}): App {
  return {
    appKey: 'ak_demo_2f6c1d',
    previousKeys: [],
    origins: null,
    readKeys: [],
    appId: 'demo',
    name: null,
    plan: '100k',
    subscription: 'active',
    trialEndsAtMs: null,
    billingAnchorMs: null,
    eventsPerMinute: 500,
    eventsPerDay: null,
    eventsPerMonth: 110_000,
    bytesPerMinute: 2 * 1024 * 1024,
    alertSteps: [50, 80, 100],
    ...parts,
  }
}
