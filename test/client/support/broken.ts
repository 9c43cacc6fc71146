// What pages and their scripts do to what the client asks of a browser: one row for each, run over a fake browser
// (web-apis.test.ts) and in a real one (web-apis.long.test.ts).

export interface Broken {
  readonly what: string
  /** Runs in the page before the client is there; with `later`, when it has events that wait. */
  readonly code: string
  readonly later?: boolean
  /**
   * `sent`: all is stored while the page is there. `held`: nothing gets through, which onHeld tells, and the page's end
   * brings it. `invalid`: the events are reported as such.
   */
  readonly ends: 'sent' | 'held' | 'invalid'
  readonly frame?: 'srcdoc' | 'about:blank'
  readonly options?: object
}

/** Names that the rows use. */
export const PRELUDE = `
  var put = (target, name, value) => Object.defineProperty(target, name, { value, configurable: true, writable: true })
  var trap = (target, name, get) => Object.defineProperty(target, name, { get, configurable: true })
  var fail = () => { throw new Error('broken by the page') }
  var never = () => new Promise(() => {})
`

/** From now on until `away = false`, as if the service were not there. */
export const AWAY = `
  var away = true
  { const real = fetch; put(globalThis, 'fetch', (...given) => away ? Promise.reject(new TypeError('away')) : real(...given)) }
`

const STORAGE = 'Storage.prototype'
const stream = (transform: string): string => `put(globalThis, 'CompressionStream', class {
  constructor() { return new TransformStream({ ${transform} }) }
})`
/** The real one, and then what \`change\` makes of its bytes. */
const altered = (change: string): string => `{
  const Real = CompressionStream
  put(globalThis, 'CompressionStream', class {
    constructor(format) {
      const real = new Real(format)
      const chunks = []
      const end = new TransformStream({
        transform(chunk) { chunks.push(...chunk) },
        flush(controller) { controller.enqueue(new Uint8Array((${change})(chunks))) },
      })
      real.readable.pipeTo(end.writable)
      return { writable: real.writable, readable: end.readable }
    }
  })
}`
const answering = (members: string): string =>
  `{ const real = fetch; put(globalThis, 'fetch', async (...given) => { const answer = await real(...given); return { ${members} } }) }`

const storage: Broken[] = [
  { what: 'localStorage throws when it is read', code: `trap(window, 'localStorage', fail)`, ends: 'sent' },
  { what: 'localStorage is undefined', code: `put(window, 'localStorage', undefined)`, ends: 'sent' },
  { what: 'localStorage is null', code: `put(window, 'localStorage', null)`, ends: 'sent' },
  { what: 'getItem throws', code: `put(${STORAGE}, 'getItem', fail)`, ends: 'sent' },
  { what: 'setItem throws', code: `put(${STORAGE}, 'setItem', fail)`, ends: 'sent' },
  { what: 'removeItem throws', code: `put(${STORAGE}, 'removeItem', fail)`, ends: 'sent' },
  {
    what: 'the names in localStorage cannot be read',
    code: `put(window, 'localStorage', new Proxy(localStorage, { ownKeys: fail, get: (target, name) => target[name].bind(target) }))`,
    ends: 'sent',
  },
  {
    what: 'everything in localStorage throws',
    code: `put(window, 'localStorage', new Proxy({}, { get: fail, ownKeys: fail, has: fail }))`,
    ends: 'sent',
  },
  {
    what: 'everything in localStorage throws from now on',
    code: `for (const name of ['getItem', 'setItem', 'removeItem']) put(${STORAGE}, name, fail)`,
    later: true,
    ends: 'sent',
  },
  { what: 'localStorage is cleared', code: `localStorage.clear()`, later: true, ends: 'sent' },
  { what: 'getItem returns undefined', code: `put(${STORAGE}, 'getItem', () => undefined)`, ends: 'sent' },
  { what: 'getItem returns an object', code: `put(${STORAGE}, 'getItem', () => ({}))`, ends: 'sent' },
  { what: 'getItem returns another text', code: `put(${STORAGE}, 'getItem', () => 'nonsense')`, ends: 'sent' },
  { what: 'setItem keeps nothing', code: `put(${STORAGE}, 'setItem', () => {})`, ends: 'sent' },
  { what: 'removeItem removes nothing', code: `put(${STORAGE}, 'removeItem', () => {})`, ends: 'sent' },
  {
    what: 'localStorage is replaced by a script that writes its own format',
    code: `{ const real = ${STORAGE}.setItem; put(${STORAGE}, 'setItem', function (name, text) { real.call(this, name, 'v1:' + text) }) }`,
    ends: 'sent',
  },
  {
    what: 'localStorage is slow',
    code: `{ const real = ${STORAGE}.getItem; put(${STORAGE}, 'getItem', function (name) { const until = performance.now() + 5; while (performance.now() < until); return real.call(this, name) }) }`,
    ends: 'sent',
  },
]

const requests: Broken[] = [
  { what: 'fetch is absent', code: `put(globalThis, 'fetch', undefined)`, ends: 'held' },
  { what: 'fetch throws', code: `put(globalThis, 'fetch', fail)`, ends: 'held' },
  { what: 'fetch rejects', code: `put(globalThis, 'fetch', async () => fail())`, ends: 'held' },
  { what: 'fetch hangs, whatever its signal says', code: `put(globalThis, 'fetch', never)`, ends: 'held' },
  { what: 'fetch returns undefined', code: `put(globalThis, 'fetch', async () => undefined)`, ends: 'held' },
  { what: 'fetch returns an empty object', code: `put(globalThis, 'fetch', async () => ({}))`, ends: 'held' },
  {
    what: 'fetch returns a text',
    code: `put(globalThis, 'fetch', () => 'nonsense')`,
    ends: 'held',
  },
  {
    what: 'the text of an answer rejects',
    code: answering(`status: answer.status, headers: answer.headers, text: async () => fail()`),
    ends: 'sent',
  },
  {
    what: 'the text of an answer hangs',
    code: answering(`status: answer.status, headers: answer.headers, text: never`),
    ends: 'sent',
  },
  {
    what: 'the headers of an answer throw',
    code: answering(`status: answer.status, headers: { get: fail }, text: () => answer.text()`),
    ends: 'sent',
  },
  {
    what: 'an answer has no headers',
    code: answering(`status: answer.status, text: () => answer.text()`),
    ends: 'sent',
  },
  {
    what: 'fetch is slow, and has no use for a signal',
    code: `{ const real = fetch; const wait = setTimeout; put(globalThis, 'fetch', async (url, { signal, ...init }) => { await new Promise((done) => wait(done, 1500)); return real(url, init) }) }`,
    ends: 'sent',
  },
  {
    what: 'another script adds headers to each fetch',
    code: `{ const real = fetch; put(globalThis, 'fetch', (url, init) => real(url, { ...init, headers: { ...init.headers, baggage: 'a=1', tracestate: 'b=2', 'sentry-trace': 'c' } })) }`,
    ends: 'sent',
  },
  { what: 'Request is absent', code: `put(globalThis, 'Request', undefined)`, ends: 'sent' },
  { what: 'AbortController is absent', code: `put(globalThis, 'AbortController', undefined)`, ends: 'sent' },
  {
    what: 'AbortController throws',
    code: `put(globalThis, 'AbortController', class { constructor() { fail() } })`,
    ends: 'sent',
  },
]

const compression: Broken[] = [
  { what: 'CompressionStream is absent', code: `put(globalThis, 'CompressionStream', undefined)`, ends: 'sent' },
  {
    what: 'CompressionStream throws',
    code: `put(globalThis, 'CompressionStream', class { constructor() { fail() } })`,
    ends: 'sent',
  },
  { what: 'compression rejects', code: stream(`transform: fail`), ends: 'sent' },
  { what: 'compression hangs', code: stream(`transform: never`), ends: 'sent' },
  { what: 'compression gives nothing', code: stream(`transform() {}`), ends: 'sent' },
  { what: 'compression gives what it was given', code: stream(``), ends: 'sent' },
  { what: 'compression ends too early', code: altered('(bytes) => bytes.slice(0, bytes.length / 2)'), ends: 'sent' },
  {
    what: 'compression changes what lies in the middle',
    code: altered('(bytes) => bytes.map((byte, at) => (at > 20 && at < bytes.length - 8 ? 0 : byte))'),
    ends: 'sent',
  },
  {
    what: 'compression is slow',
    code: `{ const wait = setTimeout; ${stream(`transform: (chunk, to) => new Promise((done) => wait(() => done(to.enqueue(chunk)), 800))`)} }`,
    ends: 'sent',
  },
  {
    what: 'a Blob cannot be read',
    code: `put(globalThis, 'Blob', class { stream() { return new ReadableStream({ pull: fail }) } })`,
    ends: 'sent',
  },
  { what: 'Blob is absent', code: `put(globalThis, 'Blob', undefined)`, ends: 'sent' },
  { what: 'Response is absent', code: `put(globalThis, 'Response', undefined)`, ends: 'sent' },
]

const surroundings: Broken[] = [
  { what: 'navigator.language is undefined', code: `put(navigator, 'language', undefined)`, ends: 'sent' },
  { what: 'navigator.language is null', code: `put(navigator, 'language', null)`, ends: 'sent' },
  { what: 'navigator.language throws', code: `trap(navigator, 'language', fail)`, ends: 'sent' },
  { what: 'navigator.userAgent throws', code: `trap(navigator, 'userAgent', fail)`, ends: 'sent' },
  { what: 'navigator.onLine throws', code: `trap(navigator, 'onLine', fail)`, ends: 'sent' },
  { what: 'navigator.onLine is nonsense', code: `put(navigator, 'onLine', 'perhaps')`, ends: 'sent' },
  { what: 'navigator says that it is offline, and is not', code: `put(navigator, 'onLine', false)`, ends: 'sent' },
  { what: 'sendBeacon is absent', code: `put(navigator, 'sendBeacon', undefined)`, ends: 'sent' },
  { what: 'sendBeacon throws', code: `put(navigator, 'sendBeacon', fail)`, ends: 'sent' },
  { what: 'screen is absent', code: `put(globalThis, 'screen', undefined)`, ends: 'sent' },
  { what: 'screen throws', code: `trap(globalThis, 'screen', fail)`, ends: 'sent' },
  { what: 'the page is a srcdoc frame', code: '', frame: 'srcdoc', ends: 'sent' },
  { what: 'the page is about:blank in a frame', code: '', frame: 'about:blank', ends: 'sent' },
  { what: 'URL is absent', code: `put(globalThis, 'URL', undefined)`, ends: 'sent' },
  { what: 'URL throws', code: `put(globalThis, 'URL', class { constructor() { fail() } })`, ends: 'sent' },
  { what: 'TextEncoder is absent', code: `put(globalThis, 'TextEncoder', undefined)`, ends: 'sent' },
  { what: 'crypto is absent', code: `put(globalThis, 'crypto', undefined)`, ends: 'sent' },
  { what: 'getRandomValues throws', code: `put(crypto, 'getRandomValues', fail)`, ends: 'sent' },
  { what: 'getRandomValues changes nothing', code: `put(crypto, 'getRandomValues', (bytes) => bytes)`, ends: 'sent' },
  { what: 'Math.random is always the same', code: `Math.random = () => 0.25`, ends: 'sent' },
  { what: 'Math.random is no number', code: `Math.random = () => NaN`, ends: 'sent' },
  { what: 'Math.random throws', code: `Math.random = fail`, ends: 'sent' },
  { what: 'visibilityState is undefined', code: `put(document, 'visibilityState', undefined)`, ends: 'sent' },
  { what: 'visibilityState throws', code: `trap(document, 'visibilityState', fail)`, ends: 'sent' },
  {
    what: 'addEventListener throws',
    code: `put(window, 'addEventListener', fail); put(document, 'addEventListener', fail)`,
    ends: 'sent',
  },
  {
    what: 'arrays have a toJSON of long ago',
    code: `put(Array.prototype, 'toJSON', function () { return '[' + this.join() + ']' })`,
    ends: 'sent',
  },
  { what: 'history cannot be changed', code: `Object.freeze(history)`, options: { pageViews: true }, ends: 'sent' },
  { what: 'history throws', code: `trap(globalThis, 'history', fail)`, options: { pageViews: true }, ends: 'sent' },
  { what: 'console is absent', code: `put(globalThis, 'console', undefined)`, options: { debug: true }, ends: 'sent' },
  {
    what: 'a policy only reports',
    code: `document.dispatchEvent(Object.assign(new Event('securitypolicyviolation'), { blockedURI: ADDRESS, disposition: 'report', effectiveDirective: 'connect-src' }))`,
    later: true,
    ends: 'sent',
  },
  {
    what: 'a policy forbids an image of the same address',
    code: `document.dispatchEvent(Object.assign(new Event('securitypolicyviolation'), { blockedURI: ADDRESS, disposition: 'enforce', effectiveDirective: 'img-src' }))`,
    later: true,
    ends: 'sent',
  },
  {
    what: 'a policy forbids another address of the service',
    code: `document.dispatchEvent(Object.assign(new Event('securitypolicyviolation'), { blockedURI: ADDRESS.slice(0, -14), disposition: 'enforce', effectiveDirective: 'connect-src' }))`,
    later: true,
    ends: 'sent',
  },
]

const time: Broken[] = [
  { what: 'Date.now throws', code: `Date.now = fail`, ends: 'sent' },
  { what: 'Date.now is no number', code: `Date.now = () => NaN`, ends: 'sent' },
  { what: 'Date.now is a text', code: `Date.now = () => 'now'`, ends: 'sent' },
  { what: 'the clock stands in 1970', code: `Date.now = () => 1000`, ends: 'sent' },
  {
    what: 'the clock is a year ahead',
    code: `{ const real = Date.now; Date.now = () => real() + 31536000000 }`,
    ends: 'sent',
  },
  { what: 'toISOString throws', code: `Date.prototype.toISOString = fail`, ends: 'invalid' },
  { what: 'setTimeout throws', code: `put(globalThis, 'setTimeout', fail)`, ends: 'sent' },
  { what: 'setTimeout never runs its task', code: `put(globalThis, 'setTimeout', () => 1)`, ends: 'sent' },
  {
    what: 'setTimeout runs its task at once',
    code: `put(globalThis, 'setTimeout', (task) => (task(), 1))`,
    ends: 'sent',
  },
  {
    what: 'Date throws',
    code: `{ const Real = Date; put(globalThis, 'Date', class { constructor() { fail() } }); Date.now = fail }`,
    ends: 'invalid',
  },
  { what: 'Date is absent', code: `put(globalThis, 'Date', undefined)`, ends: 'invalid' },
  { what: 'performance is absent', code: `put(globalThis, 'performance', undefined)`, ends: 'sent' },
  { what: 'performance.now is no number', code: `put(performance, 'now', () => 'soon')`, ends: 'sent' },
  {
    what: 'the clock is set back by forty days',
    code: `{ const real = Date.now; put(globalThis, 'performance', undefined); Date.now = () => real() - 3456000000 }`,
    later: true,
    ends: 'sent',
  },
  { what: 'clearTimeout throws', code: `put(globalThis, 'clearTimeout', fail)`, ends: 'sent' },
]

export const BROKEN: readonly Broken[] = [...storage, ...requests, ...compression, ...surroundings, ...time]

/** The client in the page, and what it said. It makes the row's events, of which one is worth compressing. */
export function startCode(address: string, url: string, name: string, { options = {} }: Broken): string {
  return `
    var ADDRESS = ${JSON.stringify(address)}
    var seen = { thrown: [], dropped: [], held: [] }
    var note = (error) => void seen.thrown.push(String(error))
    var safely = (work) => { try { return work() } catch (error) { note(error) } }
    onerror = note
    onunhandledrejection = ({ reason }) => note(reason)
    var client = safely(() => sluice.createClient({
      url: ${JSON.stringify(url)},
      appKey: 'ak_plain',
      onDropped: (reason, events) => seen.dropped.push(...events.map(() => reason)),
      onHeld: (reason) => seen.held.push(reason),
      ...${JSON.stringify(options)},
    }))
    safely(() => client.track(${JSON.stringify(`${name} small`)}))
    safely(() => client.track(${JSON.stringify(`${name} large`)}, { text: 'é'.repeat(400), list: [1, 2], more: 'x'.repeat(400) , last: 'y'.repeat(400) }))
  `
}
