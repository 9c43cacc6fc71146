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

it('keeps the alerts of an app that sends nothing more for 35 days', async () => {
  const timers = new ManualTimers()
  const window = { startMs: 0, endMs: 86_400_000, reached: 50, round: 0 }
  const standing = { day: window, month: { ...window, isForecast: false, forecastRound: 0 } }
  const at = (ms: number) => ({ id: `of ${ms}`, at: new Date(ms).toISOString(), app_id: 'shop' })
  const dumped = { apps: [{ appId: 'shop', standing, alerts: JSON.stringify([at(0), at(86_400_000)]) }] }
  const alerts = new OwnAlerts({
    limiter: { appIds: () => [], sums: () => expect.fail() },
    apps: { findById: () => 'unknown' },
    timers,
    onAlert: () => {},
    onNotice: (message) => expect.fail(message),
    dumped,
  })
  const kept = () => [alerts.read('shop').length, alerts.read(null).length, alerts.dump().apps.length]
  timers.block(35 * 86_400_000 - 30_000)
  await timers.pass(30_000)
  expect(kept()).toEqual([2, 2, 1])
  await timers.pass(60_000)
  expect(kept()).toEqual([1, 1, 1])
  timers.block(86_400_000)
  await timers.pass(60_000)
  expect(kept()).toEqual([0, 0, 0])
  alerts.stop()
})
