// What the browser says of its device, as the service stores it.

import { describe, expect, it, vi } from 'vitest'
import { systemPlatform } from '../../clients/typescript/src/platform.ts'

const AGENTS: readonly (readonly [string, string, string])[] = [
  [
    'Chrome on Android',
    'Android',
    '(Linux; Android 10; K) AppleWebKit/537.36 (KHTML, like Gecko) Chrome/142.0.0.0 Mobile Safari/537.36',
  ],
  ['Firefox on Android', 'Android', '(Android 15; Mobile; rv:145.0) Gecko/145.0 Firefox/145.0'],
  [
    'Samsung Internet',
    'Android',
    '(Linux; Android 14; SAMSUNG SM-S921B) AppleWebKit/537.36 SamsungBrowser/27.0 Chrome/125.0.0.0',
  ],
  [
    'WebView of Android',
    'Android',
    '(Linux; Android 13; Pixel 7; wv) AppleWebKit/537.36 Version/4.0 Chrome/120.0.0.0 Mobile',
  ],
  [
    'iPhone',
    'iPhone',
    '(iPhone; CPU iPhone OS 18_6 like Mac OS X) AppleWebKit/605.1.15 Version/18.6 Mobile/15E148 Safari/604.1',
  ],
  ['iPad', 'iPad', '(iPad; CPU OS 16_7 like Mac OS X) AppleWebKit/605.1.15 Version/16.6 Mobile/15E148 Safari/604.1'],
  [
    'Safari on a Mac',
    'Mac OS',
    '(Macintosh; Intel Mac OS X 10_15_7) AppleWebKit/605.1.15 Version/18.5 Safari/605.1.15',
  ],
  ['Edge', 'Windows', '(Windows NT 10.0; Win64; x64) AppleWebKit/537.36 Chrome/142.0.0.0 Safari/537.36 Edg/142.0.0.0'],
  ['ChromeOS', 'CrOS', '(X11; CrOS x86_64 14541.0.0) AppleWebKit/537.36 Chrome/142.0.0.0 Safari/537.36'],
  ['Firefox on Linux', 'Linux', '(X11; Linux x86_64; rv:145.0) Gecko/20100101 Firefox/145.0'],
  [
    'a headset of Meta',
    'Quest',
    '(X11; Linux x86_64; Quest 3) AppleWebKit/537.36 OculusBrowser/35.0 Chrome/126.0.0.0 VR',
  ],
  [
    'a television with Tizen',
    'Tizen',
    '(SMART-TV; LINUX; Tizen 7.0) AppleWebKit/537.36 94.0.4606.31/7.0 TV Safari/537.36',
  ],
  ['a television with webOS', 'Web0S', '(Web0S; Linux/SmartTV) AppleWebKit/537.36 Chrome/120.0.0.0 Safari/537.36'],
  ['KaiOS', 'KAIOS', '(Mobile; Nokia_8110_4G; rv:48.0) Gecko/48.0 Firefox/48.0 KAIOS/2.5'],
]

function contextIn(navigator: object): object {
  vi.stubGlobal('navigator', navigator)
  return systemPlatform().context
}

describe('the system', () => {
  it.each(AGENTS)('of %s is %s', (_browser, os, agent) => {
    expect(contextIn({ userAgent: `Mozilla/5.0 ${agent}` })).toEqual({ os })
  })

  it('of an iPad that says it is a Mac is iPad', () => {
    const [, , mac] = AGENTS.find(([name]) => name === 'Safari on a Mac')!
    expect(contextIn({ userAgent: mac, maxTouchPoints: 5 })).toEqual({ os: 'iPad' })
  })

  it.each([undefined, {}, { userAgent: '' }, { userAgent: 7 }])(
    'of Node is its platform, whatever navigator is: %j',
    (navigator) => {
      expect(contextIn(navigator as object)).toEqual({ os: process.platform })
    },
  )

  it('is said though nobody says it', () => {
    vi.stubGlobal('process', undefined)
    expect(contextIn({})).toEqual({ os: 'unknown' })
  })
})

describe('the language', () => {
  const userAgent = '(iPhone; CPU iPhone OS 18_6 like Mac OS X)'

  it.each([
    ['en-US', 'en_US'],
    ['en', 'en'],
    ['zh-Hans-CN', 'zh_Hans_CN'],
    ['ca-ES-valencia', 'ca_ES_valencia'],
    ['es-419', 'es_419'],
  ])('%s is %s', (language, locale) => {
    expect(contextIn({ userAgent, language })).toEqual({ os: 'iPhone', locale })
  })

  it.each([undefined, null, '', 7, {}])('%j is left out', (language) => {
    expect(contextIn({ userAgent, language })).toEqual({ os: 'iPhone' })
  })
})
