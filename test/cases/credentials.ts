// Who may see what: every route of every listener, and what it answers to each kind of credential, by status and code.

export const CREDENTIALS = [
  'none',
  'wrong token',
  'app key',
  'read key',
  'read key of another app',
  'expired read key',
  'portal session',
  'console token',
  'reading token',
  'console session',
  'console session of its page',
] as const
export type Credential = (typeof CREDENTIALS)[number]

export type Listener = 'ingest' | 'admin' | 'portal'
export const LISTENERS: readonly Listener[] = ['ingest', 'admin', 'portal']

/** Such as `401 key_wanted`. Whoever is not named gets what `others` has. */
export type Answers = Readonly<Partial<Record<Credential, string>>> & { readonly others: string }

export interface Route {
  readonly listener: Listener
  readonly method: string
  /** As it is documented: `{made}` is an app of whoever asks. */
  readonly path: string
  readonly query?: string
  /** `credential`: what is shown is in the body, as the route wants it. */
  readonly body?: string
  readonly answers: Answers
}

const ALL = (others: string): Answers => ({ others })

/** Of the portal: a read key, whosever it is, since it shows the figures of its own app. */
const READERS = (answer: string, others = '401 key_wanted'): Answers => ({
  'read key': answer,
  'read key of another app': answer,
  'portal session': answer,
  others,
})

/** Of the admin port. */
const OPERATORS = (answer: string, others = '401 token_wanted'): Answers => ({
  'console token': answer,
  'reading token': answer,
  'console session': answer,
  'console session of its page': answer,
  others,
})

const WRITERS = (answer: string): Answers => ({
  'console token': answer,
  'console session of its page': answer,
  'reading token': '403 read_only',
  'console session': '403 foreign_origin',
  others: '401 token_wanted',
})

type Row = readonly [method: string, path: string, answers: Answers, more?: Pick<Route, 'query' | 'body'>]

const RECORD = '{"plan":"10k","subscription":"active"}'
const BODY = '{"events":[{"type":"click"}]}'
const KEY = '7f0e0bb2-6c3a-4d5e-9a53-2a6a4d1c9a10'

const PORTAL: readonly Row[] = [
  ['GET', '/', ALL('200')],
  ['GET', '/events', ALL('200')],
  ['GET', '/refused', ALL('200')],
  ['GET', '/batch', ALL('200')],
  ['GET', '/explain', ALL('200')],
  ['GET', '/assets/nothing.js', ALL('404')],
  ['GET', '/api/session', READERS('200')],
  ['GET', '/api/usage', READERS('200')],
  ['GET', '/api/usage', READERS('200'), { query: '?days=35&app=walrus&app_id=walrus' }],
  ['GET', '/api/alerts', READERS('200'), { query: '?app=walrus' }],
  ['GET', '/api/alerts/stream', READERS('200'), { query: '?app=walrus' }],
  ['GET', '/api/events', READERS('200'), { query: '?app=walrus&app_id=walrus' }],
  ['GET', '/api/events/stream', READERS('200'), { query: '?app=walrus' }],
  ['GET', '/api/refusals', READERS('200'), { query: '?app=walrus' }],
  ['GET', '/api/refusals/stream', READERS('200'), { query: '?app=walrus&from_start=1' }],
  ['GET', '/api/batches', READERS('200'), { query: `?key=${KEY}&app=walrus` }],
  ['GET', '/api/batches/{batch_id}', READERS('200'), { query: '?events=1' }],
  ['POST', '/api/explain', READERS('200'), { body: BODY }],
  [
    'POST',
    '/api/session',
    {
      none: '400 bad_request',
      'read key': '204',
      'read key of another app': '204',
      'portal session': '400 bad_request',
      'console session': '400 bad_request',
      'console session of its page': '400 bad_request',
      others: '401 key_wanted',
    },
    { body: 'credential' },
  ],
  ['DELETE', '/api/session', READERS('204')],
]

const ADMIN: readonly Row[] = [
  ['GET', '/', ALL('200')],
  ['GET', '/events', ALL('200')],
  ['GET', '/refused', ALL('200')],
  ['GET', '/batch', ALL('200')],
  ['GET', '/apps', ALL('200')],
  ['GET', '/app', ALL('200')],
  ['GET', '/explain', ALL('200')],
  ['GET', '/search', ALL('200')],
  ['GET', '/assets/nothing.js', ALL('404')],
  ['GET', '/metrics', ALL('200')],
  ['GET', '/livez', ALL('200')],
  ['GET', '/readyz', ALL('200'), { query: '?verbose' }],
  // It says whether a token is wanted, and nothing else.
  ['GET', '/api/session', ALL('200')],
  ['GET', '/api/now', OPERATORS('200')],
  ['GET', '/api/now/stream', OPERATORS('200')],
  ['GET', '/api/events', OPERATORS('200')],
  ['GET', '/api/events/stream', OPERATORS('200')],
  ['GET', '/api/refusals', OPERATORS('200')],
  ['GET', '/api/refusals/stream', OPERATORS('200')],
  ['GET', '/api/apps', OPERATORS('200')],
  ['GET', '/api/alerts', OPERATORS('200')],
  ['GET', '/api/alerts/stream', OPERATORS('200')],
  ['GET', '/api/batches', OPERATORS('200'), { query: `?app=tulip&key=${KEY}` }],
  ['GET', '/api/batches/{batch_id}', OPERATORS('200')],
  ['GET', '/api/search', OPERATORS('200'), { query: '?q=user-1' }],
  ['GET', '/api/example', OPERATORS('200')],
  ['POST', '/api/explain', OPERATORS('200'), { body: BODY }],
  ['GET', '/api/codes', OPERATORS('200')],
  ['GET', '/api/apps/{app_id}', OPERATORS('200')],
  ['GET', '/api/apps/{app_id}/usage', OPERATORS('200'), { query: '?days=35' }],
  ['GET', '/api/apps/{app_id}/read-keys', OPERATORS('200')],
  ['PUT', '/api/apps/{made}', WRITERS('201'), { body: RECORD }],
  ['POST', '/api/apps/{made}/rotate', WRITERS('200'), { body: '{}' }],
  ['POST', '/api/apps/{made}/read-keys', WRITERS('201'), { body: '{"name":"web"}' }],
  ['DELETE', '/api/apps/{made}/read-keys/{name}', WRITERS('204')],
  ['DELETE', '/api/apps/{made}', WRITERS('204')],
  [
    'POST',
    '/api/session',
    {
      none: '400 bad_request',
      'portal session': '400 bad_request',
      'console session': '400 bad_request',
      'console session of its page': '400 bad_request',
      'console token': '204',
      'reading token': '204',
      others: '401 token_wanted',
    },
    { body: 'credential' },
  ],
  ['DELETE', '/api/session', ALL('204')],
]

/** Here the credential is the `app_key` of the body. */
const INGEST: readonly Row[] = [
  [
    'POST',
    '/api/v1/events',
    {
      none: '400 validation_failed',
      'portal session': '400 validation_failed',
      'console session': '400 validation_failed',
      'console session of its page': '400 validation_failed',
      'app key': '202',
      others: '401 invalid_app_key',
    },
    { body: 'credential' },
  ],
  ['GET', '/api/v1/events', ALL('405 method_not_allowed')],
]

const ROWS: Readonly<Record<Listener, readonly Row[]>> = { ingest: INGEST, admin: ADMIN, portal: PORTAL }
const OWN = LISTENERS.flatMap((listener) =>
  ROWS[listener].map(([method, path, answers, more]): Route => ({ listener, method, path, answers, ...more })),
)

/** What a path of another listener, or one that nobody has, answers. */
function absent(listener: Listener, path: string): Answers {
  if (listener === 'admin' && path.startsWith('/api/')) return OPERATORS('404 not_found')
  // The files of the pages are named in plain text.
  return ALL('404 not_found')
}

function elsewhere(listener: Listener): Route[] {
  const own = new Set(ROWS[listener].map(([, path]) => path))
  const paths = new Set([...OWN.map(({ path }) => path), '/nothing', '/api/nothing', '/api/../metrics'])
  return [...paths]
    .filter((path) => !own.has(path) && !own.has(path.replace('{made}', '{app_id}')))
    .filter((path) => !(listener === 'admin' && path.includes('{')))
    .map((path) => ({ listener, method: 'GET', path, answers: absent(listener, path) }))
}

/** Methods that a path does not have are told to whoever it would answer, and to nobody else. */
function otherMethods(listener: 'admin' | 'portal'): Route[] {
  const paths = new Set(ROWS[listener].map(([, path]) => path).filter((path) => path.startsWith('/api/')))
  const wrong = '405 method_not_allowed'
  return [...paths]
    .filter((path) => !path.includes('{made}'))
    .map((path) => {
      const isOpen = listener === 'admin' && path === '/api/session'
      const answers = isOpen ? ALL(wrong) : listener === 'admin' ? OPERATORS(wrong) : READERS(wrong)
      return { listener, method: 'PATCH', path, answers }
    })
}

/** In the order in which they are to be asked: sessions end last. */
export const ROUTES: readonly Route[] = [
  ...LISTENERS.flatMap(elsewhere),
  ...otherMethods('admin'),
  ...otherMethods('portal'),
  ...OWN,
]
