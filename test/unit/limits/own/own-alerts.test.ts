import { expect, it } from 'vitest'
import { OwnAlerts } from '../../../../src/limits/own/own-alerts.ts'
import { ManualTimers } from '../../../support/timers.ts'

it('says that alerts could not be decided, goes on, and tries again', async () => {
  const timers = new ManualTimers()
  const notices: string[] = []
  const alerts = new OwnAlerts({
    limiter: {
      appIds: () => ['shop'],
      sums: () => {
        throw new Error('broken')
      },
    },
    apps: { findById: () => ({}) as never },
    timers,
    onAlert: () => {},
    onNotice: (message) => notices.push(message),
    dumped: null,
  })
  await timers.pass(60_000)
  const notice = 'alerts could not be decided; they are tried again in half a minute: broken'
  expect(notices).toEqual([notice, notice])
  alerts.stop()
})
