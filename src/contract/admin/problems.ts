// Each error of the admin port and of the portal, once: its status, what it says where whoever answers says nothing else,
// and its headers.

export type ProblemRow = readonly [status: number, message?: string, headers?: Readonly<Record<string, string>>]

/** What whoever answers with a row may add; a row without a message needs one. */
export type Said<Row extends ProblemRow> = [Row] extends [readonly [number, string, ...unknown[]]]
  ? [message?: string, headers?: Readonly<Record<string, string>>]
  : [message: string, headers?: Readonly<Record<string, string>>]

const BEARER = { 'WWW-Authenticate': 'Bearer' }

/** Why the admin port answers with an error. */
export const PROBLEMS = {
  bad_request: [400],
  token_wanted: [401, 'the token is missing or wrong: it is the value of SLUICE_CONSOLE_TOKEN', BEARER],
  console_off: [
    403,
    'console disabled: the admin port can be reached from other hosts and SLUICE_CONSOLE_TOKEN is not set',
  ],
  foreign_host: [
    421,
    'the Host is neither a loopback name, nor SLUICE_ADMIN_HOST, nor that of SLUICE_CONSOLE_ORIGIN: set the last one to the address that you ask by',
  ],
  foreign_origin: [403, 'pages of other origins may not ask'],
  not_found: [404],
  method_not_allowed: [405, 'only GET', { Allow: 'GET' }],
  payload_too_large: [413],
  too_many_tries: [429, 'too many wrong tokens in the last second: try again', { 'Retry-After': '1' }],
  too_many_watchers: [503],
  draining: [503, 'this node is ending: ask another one'],
  starting: [503, 'this node is starting: ask again in a moment'],
  busy: [503, 'others ask the same of this node: try again in a moment'],
  unavailable: [503],
  internal_error: [500, 'a bug in sluice: the log of the node that was asked has it'],
  unsupported_media_type: [415, 'the Content-Type must be application/json'],
  read_only: [403, 'only SLUICE_CONSOLE_TOKEN, shown here, may change apps and keys'],
  no_such_app: [404, 'there is no such app'],
  no_such_key: [404, 'there is no such read key'],
  key_exists: [409],
  bad_record: [400],
  precondition_failed: [412, 'the record is not the one that If-Match or If-None-Match names'],
  apps_in_file: [409],
} as const satisfies Readonly<Record<string, ProblemRow>>

/** Why the portal does: it says nothing of the service. */
export const PORTAL_PROBLEMS = {
  bad_request: PROBLEMS.bad_request,
  key_wanted: [401, 'a read key is wanted: sluice apps read-key makes one', BEARER],
  foreign_host: [421, 'this is not the address of the portal'],
  foreign_origin: PROBLEMS.foreign_origin,
  not_found: [404, 'there is no such page'],
  method_not_allowed: PROBLEMS.method_not_allowed,
  payload_too_large: PROBLEMS.payload_too_large,
  // The connection is closed, so that the next try costs one.
  too_many_tries: [
    429,
    'too many wrong keys in the last second: try again',
    { 'Retry-After': '1', Connection: 'close' },
  ],
  too_many_requests: [429, 'a key has 60 requests a minute'],
  too_many_searches: [429, 'a key has 6 searches a minute'],
  too_many_streams: [429, 'a key has 2 streams'],
  busy: [429, 'others ask the same now: try again in a moment', { 'Retry-After': '1' }],
  unavailable: [503],
  // Its stack is in the log.
  internal_error: [500, 'this cannot be answered: tell whoever runs the service'],
} as const satisfies Readonly<Record<string, ProblemRow>>

export type Problem = keyof typeof PROBLEMS
export type PortalProblem = keyof typeof PORTAL_PROBLEMS

/** An answer with the error, without the headers of its row. */
export function problemOf<Name extends Problem>(error: Name, ...[message]: Said<(typeof PROBLEMS)[Name]>) {
  return problemOfRow(PROBLEMS[error], error, message)
}

export function problemOfRow([status, standard]: ProblemRow, error: Problem | PortalProblem, message = standard) {
  return { status, json: JSON.stringify({ error, message }) }
}
