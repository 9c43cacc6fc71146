import type { IncomingHttpHeaders } from 'node:http'
import { describe, expect, it } from 'vitest'
import { ConsoleAccess } from '../../../src/console/console-access.ts'
import { EndedSessions } from '../../../src/console/sessions.ts'

const TOKEN = 'a-token-of-twenty-ch'

interface Options {
  token?: string | null
  adminHost?: string
  consoleOrigin?: string
  now?: { ms: number }
  readToken?: () => string | null
}

function access(options: Options = {}): ConsoleAccess {
  const now = options.now ?? { ms: 1_000_000 }
  return new ConsoleAccess({
    token: options.token === undefined ? TOKEN : options.token,
    readingToken: null,
    ended: new EndedSessions(() => now.ms),
    adminHost: options.adminHost ?? '127.0.0.1',
    consoleOrigin: options.consoleOrigin ?? null,
    nowMs: () => now.ms,
    ...(options.readToken === undefined ? {} : { readToken: options.readToken }),
  })
}

/** Of a request as a browser on this machine sends it. */
function headersOf(changes: IncomingHttpHeaders = {}): IncomingHttpHeaders {
  return { host: 'localhost:9090', ...changes }
}

function cookieOf(opened: ReturnType<ConsoleAccess['open']>): string {
  if (typeof opened === 'string') throw new Error(opened)
  return /^(?:__Host-)?sluice_console=[^;]+/.exec(opened.cookie)?.[0] ?? ''
}

describe('without a token', () => {
  it('is there on a loopback address', () => {
    for (const adminHost of ['127.0.0.1', '127.8.0.1', '::1', 'localhost']) {
      expect(access({ token: null, adminHost }).check(headersOf())).toBe(null)
    }
  })

  it('is off on any address that others reach', () => {
    for (const adminHost of ['0.0.0.0', '::', '10.1.2.3', 'sluice.internal']) {
      expect(access({ token: null, adminHost }).check(headersOf())).toBe('console_off')
      expect(access({ token: null, adminHost }).screen(headersOf())).toBe('console_off')
    }
  })
})

describe('the Host', () => {
  it('may be any loopback name, with a port or without', () => {
    for (const host of ['localhost', 'LOCALHOST:9090', '127.0.0.1:9090', '127.1.2.3', '[::1]:9090', '[::1]']) {
      expect([host, access({ token: null }).check(headersOf({ host }))]).toEqual([host, null])
    }
  })

  it('may be the name of the admin address, but not an address of all interfaces', () => {
    const named = access({ adminHost: 'Console.Example' })
    expect(named.screen(headersOf({ host: 'console.example:9090' }))).toBe(null)
    expect(access({ adminHost: '0.0.0.0' }).screen(headersOf({ host: '0.0.0.0:9090' }))).toBe('foreign_host')
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
      expect([host, access({ token: null }).check(headersOf({ host }))]).toEqual([host, 'foreign_host'])
      expect([host, access().screen(headersOf({ host }))]).toEqual([host, 'foreign_host'])
    }
  })

  it('matters to who carries the token too, and where the console is off', () => {
    const open = access()
    const authorization = `Bearer ${TOKEN}`
    const cookie = cookieOf(open.open(TOKEN))
    for (const headers of [{ authorization }, { cookie }]) {
      expect(open.check(headersOf({ host: 'pod.example', ...headers }))).toBe('foreign_host')
      expect(open.screen(headersOf({ host: 'pod.example', ...headers }))).toBe('foreign_host')
    }
    expect(access({ token: null, adminHost: '0.0.0.0' }).screen(headersOf({ host: 'pod.example' }))).toBe(
      'foreign_host',
    )
  })

  it('may be that of the public address, with a port or without', () => {
    for (const consoleOrigin of ['https://sluice.example.com', 'https://sluice.example.com:8443']) {
      const named = access({ token: null, consoleOrigin })
      for (const host of ['sluice.example.com', 'Sluice.Example.com:8443']) {
        expect([host, named.check(headersOf({ host }))]).toEqual([host, null])
      }
      for (const host of ['example.com', 'evil.sluice.example.com', 'sluice.example.com.evil']) {
        expect([host, named.check(headersOf({ host }))]).toEqual([host, 'foreign_host'])
      }
    }
    const numbered = access({ consoleOrigin: 'http://[2001:db8::1]:9090' })
    expect(numbered.screen(headersOf({ host: '[2001:db8::1]:9090' }))).toBe(null)
  })
})

describe('the Origin', () => {
  it('must be the same host and port, where there is one', () => {
    const open = access({ token: null })
    const host = 'localhost:9090'
    expect(open.check(headersOf({ host, origin: 'http://localhost:9090' }))).toBe(null)
    for (const origin of [
      'http://evil.example',
      'null',
      'http://localhost:9091',
      'http://localhost',
      'localhost:9090',
    ]) {
      expect([origin, open.check(headersOf({ host, origin }))]).toEqual([origin, 'foreign_origin'])
      expect([origin, open.screen(headersOf({ host, origin }))]).toEqual([origin, 'foreign_origin'])
    }
  })

  it('may be the public address, whatever the name that a proxy asks by', () => {
    const open = access({ token: null, consoleOrigin: 'https://sluice.example.com' })
    for (const host of ['localhost:9090', 'sluice.example.com']) {
      expect(open.check(headersOf({ host, origin: 'https://sluice.example.com' }))).toBe(null)
    }
    for (const origin of ['http://sluice.example.com', 'https://sluice.example.com:8443', 'https://example.com']) {
      expect([origin, open.check(headersOf({ origin }))]).toEqual([origin, 'foreign_origin'])
    }
  })

  it('of the public address has its scheme; elsewhere that is whatever a proxy adds', () => {
    const consoleOrigin = 'https://sluice.example.com'
    const open = access({ consoleOrigin })
    const cookie = cookieOf(open.open(TOKEN))
    const writerOf = (host: string, origin: string) => open.writer(headersOf({ host, origin, cookie }))
    for (const host of ['sluice.example.com', 'Sluice.Example.com', 'sluice.example.com:8443']) {
      const origins = ['http', 'HTTP', 'https', 'HTTPS'].map((scheme) => `${scheme}://${host}`)
      const expected = ['foreign_origin', 'foreign_origin', 'session', 'session']
      expect(origins.map((origin) => writerOf(host, origin))).toEqual(expected)
      const checked = origins.map((origin) => open.check(headersOf({ host, origin, cookie })))
      expect(checked).toEqual(['foreign_origin', 'foreign_origin', null, null])
    }
    const plain = access({ consoleOrigin: 'http://sluice.example.com' })
    const host = 'sluice.example.com'
    expect(plain.screen(headersOf({ host, origin: `https://${host}` }))).toBe('foreign_origin')
    for (const scheme of ['http', 'https']) {
      expect(writerOf('localhost:9090', `${scheme}://localhost:9090`)).toBe('session')
      expect(access({ token: null }).check(headersOf({ origin: `${scheme}://localhost:9090` }))).toBe(null)
      const named = access({ adminHost: host })
      expect(named.check(headersOf({ host, origin: `${scheme}://${host}`, authorization: `Bearer ${TOKEN}` }))).toBe(
        null,
      )
    }
  })

  it('is refused with the right token too', () => {
    const authorization = `Bearer ${TOKEN}`
    expect(access().check(headersOf({ authorization, origin: 'http://evil.example' }))).toBe('foreign_origin')
  })

  it('is told by the browser also where it has no header Origin, as for an image', () => {
    expect(access({ token: null }).check(headersOf({ 'sec-fetch-site': 'cross-site' }))).toBe('foreign_origin')
    expect(access({ token: null }).check(headersOf({ 'sec-fetch-site': 'same-origin' }))).toBe(null)
    // A link in a chat opens a page.
    expect(access({ token: null }).screen(headersOf({ 'sec-fetch-site': 'cross-site' }))).toBe(null)
  })
})

describe('the token', () => {
  it('is wanted for content, and not for the page that asks for it', () => {
    expect(access().check(headersOf())).toBe('token_wanted')
    expect(access().screen(headersOf())).toBe(null)
  })

  it('is read again from its file, once a second at most, and stays as it was where the file holds none', () => {
    const now = { ms: 1_000_000 }
    let inFile: string | null = 'a-new-token-of-20-ch'
    let reads = 0
    const one = access({ now, readToken: () => (reads++, inFile) })
    const opens = (token: string): boolean => one.check(headersOf({ authorization: `Bearer ${token}` })) === null
    expect([opens(TOKEN), opens(TOKEN), reads]).toEqual([true, true, 0])
    const session = cookieOf(one.open(TOKEN))
    now.ms += 1000
    expect([opens('a-new-token-of-20-ch'), opens(TOKEN), reads]).toEqual([true, false, 1])
    expect(one.check(headersOf({ cookie: session }))).toBe('token_wanted')
    inFile = null
    now.ms += 1000
    expect([opens('a-new-token-of-20-ch'), reads]).toEqual([true, 2])
  })

  it('opens as a bearer token alone', () => {
    expect(access().check(headersOf({ authorization: `Bearer ${TOKEN}` }))).toBe(null)
    expect(access().check(headersOf({ authorization: `bearer ${TOKEN}` }))).toBe(null)
    expect(access().check(headersOf({ authorization: TOKEN }))).toBe('token_wanted')
  })

  it('opens a session that ends after twelve hours', () => {
    const now = { ms: 1_000_000_000_000 }
    const open = access({ now })
    const cookie = cookieOf(open.open(TOKEN))
    const bearer = { authorization: `Bearer ${TOKEN}` }
    expect(open.check(headersOf({ cookie: `other=1; ${cookie}` }))).toBe(null)
    now.ms += 43_199_000
    expect(open.check(headersOf({ cookie }))).toBe(null)
    expect([open.isStillShown({ cookie }), open.isStillShown(bearer)]).toEqual([true, true])
    now.ms += 1000
    expect(open.check(headersOf({ cookie }))).toBe('token_wanted')
    expect([open.isStillShown({ cookie }), open.isStillShown(bearer)]).toEqual([false, true])
  })

  it('opens a session that holds on every node with the same token, and on no other', () => {
    const cookie = cookieOf(access().open(TOKEN))
    expect(access().check(headersOf({ cookie }))).toBe(null)
    expect(access({ token: 'another-token-of-some-length' }).check(headersOf({ cookie }))).toBe('token_wanted')
  })

  it('opens a session that ends on this node where its browser signs out, and no other with it', () => {
    const now = { ms: 1_000_000_000_000 }
    const open = access({ now })
    const cookie = cookieOf(open.open(TOKEN))
    now.ms += 1000
    const other = cookieOf(open.open(TOKEN))
    expect(open.signOut(headersOf({ cookie: `${cookie}x` }))).toContain('Max-Age=0')
    expect(open.check(headersOf({ cookie }))).toBe(null)
    open.signOut(headersOf({ cookie: `other=1; ${cookie}` }))
    now.ms -= 1000
    const again = cookieOf(open.open(TOKEN))
    expect(open.check(headersOf({ cookie: again }))).toBe(null)
    now.ms += 1000
    expect(open.check(headersOf({ cookie }))).toBe('token_wanted')
    expect(open.check(headersOf({ cookie: other }))).toBe(null)
    now.ms += 43_000_000
    open.signOut(headersOf())
    expect(open.check(headersOf({ cookie }))).toBe('token_wanted')
  })

  it('cannot be replaced by a cookie whose end was changed', () => {
    const open = access()
    const [, end = '', signature = ''] = /=(\d+)\.(.+)/.exec(cookieOf(open.open(TOKEN))) ?? []
    expect(open.check(headersOf({ cookie: `sluice_console=${Number(end) + 1}.${signature}` }))).toBe('token_wanted')
    expect(open.check(headersOf({ cookie: `sluice_console=${end}.` }))).toBe('token_wanted')
  })

  it('travels encrypted alone where the public address is https', () => {
    const open = access({ consoleOrigin: 'https://sluice.example.com' })
    expect(open.open(TOKEN)).toMatchObject({
      cookie: expect.stringMatching(/^__Host-sluice_console=.+; Path=\/; .+; Secure$/),
    })
    expect(open.signOut(headersOf())).toMatch(/^__Host-sluice_console=; .+; Secure$/)
    const plain = access({ consoleOrigin: 'http://sluice.example.com' })
    expect(plain.open(TOKEN)).toMatchObject({ cookie: expect.stringMatching(/^sluice_console=(?!.*Secure)/) })
  })

  it('goes on under the name without __Host- until it ends, where it began under it', () => {
    const now = { ms: 1_000_000 }
    const cookie = cookieOf(access({ now }).open(TOKEN))
    expect(cookie).toMatch(/^sluice_console=/)
    const published = access({ consoleOrigin: 'https://sluice.example.com', now })
    expect(published.check(headersOf({ cookie }))).toBe(null)
    published.signOut(headersOf({ cookie }))
    expect(published.check(headersOf({ cookie }))).toBe('token_wanted')
    const another = cookieOf(access({ now }).open(TOKEN))
    now.ms += 43_200_000
    expect(published.check(headersOf({ cookie: another }))).toBe('token_wanted')
    // Elsewhere the new name is none.
    const secure = cookieOf(published.open(TOKEN))
    expect(published.check(headersOf({ cookie: secure }))).toBe(null)
    expect(access({ now }).check(headersOf({ cookie: secure }))).toBe('token_wanted')
  })

  it('is found behind a hundred cookies of its name that another subdomain has set', () => {
    for (const consoleOrigin of ['http://sluice.example.com', 'https://sluice.example.com']) {
      const open = access({ consoleOrigin })
      const cookie = cookieOf(open.open(TOKEN))
      const [name] = cookie.split('=')
      const ofOthers = Array.from(
        { length: 100 },
        (_, at) => `${name}=${at % 2 === 0 ? 'x' : `2000000000.${'a'.repeat(22)}.${'b'.repeat(43)}`}`,
      )
      const headers = headersOf({ cookie: [...ofOthers, cookie].join('; ') })
      expect([open.check(headers), open.isStillShown(headers), open.mayWrite(headers)]).toEqual([null, true, true])
      open.signOut(headers)
      expect(open.check(headers)).toBe('token_wanted')
    }
  })

  it('is answered while wrong ones come, of which ten a second get a 401', () => {
    const now = { ms: 5000 }
    const open = access({ now })
    const wrong = 'a-wrong-token-of-some-length'
    const results = Array.from({ length: 12 }, () => open.open(wrong))
    expect(results).toEqual([
      ...Array.from({ length: 10 }, () => 'unknown'),
      ...Array.from({ length: 2 }, () => 'too_many_tries'),
    ])
    expect(open.check(headersOf({ authorization: `Bearer ${wrong}` }))).toBe('too_many_tries')
    expect(open.open(TOKEN)).toMatchObject({ cookie: expect.any(String) })
    expect(open.check(headersOf({ authorization: `Bearer ${TOKEN}` }))).toBe(null)
    expect(open.check(headersOf({ cookie: cookieOf(open.open(TOKEN)) }))).toBe(null)
    now.ms += 1000
    expect(open.open(wrong)).toBe('unknown')
  })
})
