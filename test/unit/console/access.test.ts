import { describe, expect, it } from 'vitest'
import { Access } from '../../../src/console/access.ts'
import { headOf } from '../../support/admin-head.ts'

const TOKEN = 'a-token-of-twenty-ch'

function access(options: { token?: string | null; adminHost?: string; now?: { ms: number } } = {}): Access {
  const now = options.now ?? { ms: 1_000_000 }
  return new Access({
    token: options.token === undefined ? TOKEN : options.token,
    adminHost: options.adminHost ?? '127.0.0.1',
    nowMs: () => now.ms,
  })
}

function cookieOf(opened: ReturnType<Access['open']>): string {
  if (typeof opened === 'string') throw new Error(opened)
  return /sluice_console=[^;]+/.exec(opened.cookie)?.[0] ?? ''
}

describe('without a token', () => {
  it('is there on a loopback address', () => {
    for (const adminHost of ['127.0.0.1', '127.8.0.1', '::1', 'localhost']) {
      expect(access({ token: null, adminHost }).check(headOf())).toBe(null)
    }
  })

  it('is off on any address that others reach', () => {
    for (const adminHost of ['0.0.0.0', '::', '10.1.2.3', 'sluice.internal']) {
      expect(access({ token: null, adminHost }).check(headOf())).toBe('off')
      expect(access({ token: null, adminHost }).screen(headOf())).toBe('off')
    }
  })
})

describe('the Host', () => {
  it('may be any loopback name, with a port or without', () => {
    for (const host of ['localhost', 'LOCALHOST:9090', '127.0.0.1:9090', '127.1.2.3', '[::1]:9090', '[::1]']) {
      expect([host, access({ token: null }).check(headOf({ host }))]).toEqual([host, null])
    }
  })

  it('may be the name of the admin address, but not an address of all interfaces', () => {
    const named = access({ adminHost: 'Console.Example' })
    expect(named.screen(headOf({ host: 'console.example:9090' }))).toBe(null)
    expect(access({ adminHost: '0.0.0.0' }).screen(headOf({ host: '0.0.0.0:9090' }))).toBe('host')
  })

  it('is refused where it is foreign, missing or no host', () => {
    for (const host of [
      'evil.example',
      '',
      'localhost.evil.example',
      '127.0.0.1.evil.example',
      'localhost@evil',
      'a b',
    ]) {
      expect([host, access({ token: null }).check(headOf({ host }))]).toEqual([host, 'host'])
      expect([host, access().screen(headOf({ host }))]).toEqual([host, 'host'])
    }
  })

  it('does not matter to who carries the token', () => {
    const open = access()
    const authorization = `Bearer ${TOKEN}`
    expect(open.check(headOf({ host: 'pod.example', authorization }))).toBe(null)
    expect(open.screen(headOf({ host: 'pod.example', authorization }))).toBe(null)
    expect(open.check(headOf({ host: 'pod.example', cookie: cookieOf(open.open(TOKEN)) }))).toBe(null)
  })
})

describe('the Origin', () => {
  it('must be the same host and port, where there is one', () => {
    const open = access({ token: null })
    const host = 'localhost:9090'
    expect(open.check(headOf({ host, origin: 'http://localhost:9090' }))).toBe(null)
    for (const origin of [
      'http://evil.example',
      'null',
      'http://localhost:9091',
      'http://localhost',
      'localhost:9090',
    ]) {
      expect([origin, open.check(headOf({ host, origin }))]).toEqual([origin, 'origin'])
      expect([origin, open.screen(headOf({ host, origin }))]).toEqual([origin, 'origin'])
    }
  })

  it('is refused with the right token too', () => {
    const authorization = `Bearer ${TOKEN}`
    expect(access().check(headOf({ authorization, origin: 'http://evil.example' }))).toBe('origin')
  })

  it('is told by the browser also where it has no header Origin, as for an image', () => {
    expect(access({ token: null }).check(headOf({ fetchSite: 'cross-site' }))).toBe('origin')
    expect(access({ token: null }).check(headOf({ fetchSite: 'same-origin' }))).toBe(null)
    // A link in a chat opens a page.
    expect(access({ token: null }).screen(headOf({ fetchSite: 'cross-site' }))).toBe(null)
  })
})

describe('the token', () => {
  it('is wanted for content, and not for the page that asks for it', () => {
    expect(access().check(headOf())).toBe('token')
    expect(access().screen(headOf())).toBe(null)
  })

  it('opens as a bearer token, and not in the address', () => {
    expect(access().check(headOf({ authorization: `Bearer ${TOKEN}` }))).toBe(null)
    expect(access().check(headOf({ authorization: `bearer ${TOKEN}` }))).toBe(null)
    expect(access().check(headOf({ authorization: TOKEN }))).toBe('token')
    expect(access().check(headOf({ query: `token=${TOKEN}` }))).toBe('token')
  })

  it('opens a session that ends after twelve hours', () => {
    const now = { ms: 1_000_000_000_000 }
    const open = access({ now })
    const cookie = cookieOf(open.open(TOKEN))
    expect(open.check(headOf({ cookie: `other=1; ${cookie}` }))).toBe(null)
    now.ms += 43_199_000
    expect(open.check(headOf({ cookie }))).toBe(null)
    now.ms += 1000
    expect(open.check(headOf({ cookie }))).toBe('token')
  })

  it('opens a session that holds on every node with the same token, and on no other', () => {
    const cookie = cookieOf(access().open(TOKEN))
    expect(access().check(headOf({ cookie }))).toBe(null)
    expect(access({ token: 'another-token-of-some-length' }).check(headOf({ cookie }))).toBe('token')
  })

  it('cannot be replaced by a cookie whose end was changed', () => {
    const open = access()
    const [, end = '', signature = ''] = /=(\d+)\.(.+)/.exec(cookieOf(open.open(TOKEN))) ?? []
    expect(open.check(headOf({ cookie: `sluice_console=${Number(end) + 1}.${signature}` }))).toBe('token')
    expect(open.check(headOf({ cookie: `sluice_console=${end}.` }))).toBe('token')
  })

  it('is kept from pages by the attributes of the cookie', () => {
    const opened = access().open(TOKEN)
    expect(opened).toMatchObject({
      cookie: expect.stringMatching(/; HttpOnly; SameSite=Strict; Path=\/; Max-Age=43200$/),
    })
    expect(access().closing).toContain('sluice_console=;')
    expect(access().closing).toContain('Max-Age=0')
  })

  it('is not looked at after ten wrong ones in a second, and open sessions go on', () => {
    const now = { ms: 5000 }
    const open = access({ now })
    const cookie = cookieOf(open.open(TOKEN))
    const results = Array.from({ length: 12 }, () => open.open('a wrong token of some length'))
    expect(results.filter((result) => result === 'wrong')).toHaveLength(10)
    expect(open.open(TOKEN)).toBe('not looked at')
    expect(open.check(headOf({ authorization: `Bearer ${TOKEN}` }))).toBe('too many wrong tokens')
    expect(open.check(headOf({ cookie }))).toBe(null)
    now.ms += 1000
    expect(open.open(TOKEN)).toMatchObject({ cookie: expect.any(String) })
  })
})
