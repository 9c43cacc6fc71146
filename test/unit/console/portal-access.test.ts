import { expect, it } from 'vitest'
import { freshReadKey, secretsOf } from '../../../src/apps/read-keys.ts'
import { PortalAccess } from '../../../src/console/portal-access.ts'
import { EndedSessions } from '../../../src/console/sessions.ts'
import { anApp } from '../apps/apps.ts'

const HOURS_12_MS = 12 * 3_600_000
const START_MS = Date.parse('2026-11-20T12:00:00.000Z')

it('ends what a cookie opened with its session, after twelve hours, and what the key itself opened never', () => {
  let nowMs = START_MS
  const key = freshReadKey()
  const { hash, session_key: sessionKey } = secretsOf(key)
  const app = anApp({ readKeys: [{ name: 'web', hash, sessionKey, endsAtMs: null, usedAtMs: null }] })
  const apps = () => ({ findReader: (asked: string) => (asked === hash ? app : ('unknown' as const)) })
  const now = () => nowMs
  const access = new PortalAccess({ origin: null, apps, ended: new EndedSessions(now), nowMs: now })
  const opened = access.open(key, '203.0.113.1')
  const cookie = typeof opened === 'string' ? opened : (opened.cookie.split(';')[0] ?? '')
  const bearer = { authorization: `Bearer ${key}` }
  nowMs = START_MS + HOURS_12_MS - 1
  expect([access.isSignedOut({ cookie }), access.isSignedOut(bearer)]).toEqual([false, false])
  expect(access.read({ cookie }, '203.0.113.1')).toMatchObject({ app: { appId: app.appId } })
  nowMs = START_MS + HOURS_12_MS
  expect([access.isSignedOut({ cookie }), access.isSignedOut(bearer)]).toEqual([true, false])
  expect(access.read({ cookie }, '203.0.113.1')).toBe('no key')
})
