// The scenarios, as data: what the service does, what the program does that uses the SDK, and what has to come of it.

/**
 * @typedef {'flush' | 'settle' | 'opt_out' | 'opt_in' | 'restart' | 'close' | 'release' | 'down' | 'up'
 *   | { track: readonly string[], characters?: number } | { requests: number } | { answered: number }
 *   | { quiet: number, silent?: boolean } | { deviceAheadMs: number } | { serviceAheadMs: number }} Step
 */

/**
 * @typedef {object} Scenario
 * @property {string} name
 * @property {readonly string[]} [needs] capabilities
 * @property {Partial<Parameters<typeof import('./service.js').startService>[0]>} service
 * @property {readonly Step[]} steps
 * @property {Expected} [expect]
 */

/**
 * @typedef {object} Expected
 * @property {Record<string, readonly string[]>} [dropped] by reason: these events, and no others
 * @property {Record<string, readonly string[]>} [mayDrop] these may be dropped
 * @property {number} [mostRequests]
 * @property {Record<string, number>} [reported] what `client_report` tells in all
 * @property {string} [timesOf] events whose name begins so have the service's time
 * @property {boolean} [untouched] they have the device's own
 * @property {boolean} [compressed]
 */

const SECOND_MS = 1000
const HOUR_MS = 3600 * SECOND_MS
/** Longer than the first backoff, 1.5 to 3 s. */
const SILENCE_MS = 4000

const names = (/** @type {string} */ prefix, /** @type {number} */ count) =>
  Array.from({ length: count }, (_, place) => `${prefix} ${place}`)
const FIVE = names('event', 5)
const EIGHT = names('event', 8)
const track = (/** @type {readonly string[]} */ list, characters = 0) => ({ track: list, characters })
const silent = (quiet = SILENCE_MS) => ({ quiet, silent: true })
/** @type {readonly Step[]} */
const SEND = [track(FIVE), 'flush']
const overloaded = (/** @type {number} */ seconds = 0) => ({
  status: 503,
  error: 'service_overloaded',
  ...(seconds > 0 && { headers: { 'Retry-After': String(seconds) } }),
})
const limited = (/** @type {string} */ error, /** @type {number} */ seconds) => ({
  status: 429,
  error,
  headers: { 'Retry-After': String(seconds) },
})
const foreign = (/** @type {number} */ status) => ({ status, text: '<h1>something between says so</h1>' })

/** A refusal that no retry changes: all is dropped with this reason, and nothing is sent again. */
const refused = (
  /** @type {string} */ name,
  /** @type {import('./service.js').Line} */ line,
  /** @type {string} */ reason,
) => ({
  name,
  service: { answers: [line] },
  steps: [...SEND, 'settle', silent()],
  expect: { dropped: { [reason]: FIVE }, mostRequests: 1 },
})

/** The same for one that may mean that what compressed the body is broken: it may be sent once more, as it is. */
const refusedTwice = (/** @type {Parameters<typeof refused>} */ ...[name, line, reason]) => ({
  ...refused(name, line, reason),
  service: { answers: [line, line] },
  expect: { dropped: { [reason]: FIVE }, mostRequests: 2 },
})

/** An answer after which the batch is tried again, and then stored. */
const kept = (/** @type {string} */ name, /** @type {readonly import('./service.js').Line[]} */ ...answers) => ({
  name,
  service: { answers },
  steps: SEND,
})

/** @type {readonly Scenario[]} */
export const SCENARIOS = [
  // The longest begins first.
  kept('answer-never', { never: true }),
  // Of a 400, since what it means is in its text. That a batch is stored an SDK may know by the first line.
  kept('answer-drips', { drips: true, status: 400, error: 'validation_failed' }),
  { name: 'stored', service: {}, steps: [...SEND, 'settle', silent()], expect: { mostRequests: 1 } },
  { name: 'many-events', service: {}, steps: [track(names('event', 250)), 'flush'] },
  { name: 'many-bytes', service: {}, steps: [track(names('event', 30), 16_000), 'flush'] },
  {
    name: 'compressed',
    service: {},
    steps: [track(FIVE, 4000), 'flush'],
    expect: { compressed: true },
  },
  { name: 'without-flush', service: {}, steps: [track(FIVE)] },

  kept('503-without-retry-after', overloaded(), overloaded()),
  kept('503-with-retry-after', overloaded(5)),
  kept('503-retry-after-less-than-backoff', overloaded(1), overloaded(1)),
  kept('503-of-something-between', foreign(503)),
  {
    name: '503-flush-cannot-hurry',
    service: { answers: [overloaded(5)] },
    steps: [...SEND, { answered: 1 }, 'flush', { quiet: SECOND_MS }, 'flush', { quiet: SECOND_MS }, 'flush'],
  },
  {
    name: '503-holds-others-too',
    service: { answers: [overloaded(5)] },
    steps: [...SEND, { answered: 1 }, track(names('later', 5)), 'flush', { quiet: SECOND_MS }, 'flush'],
  },
  kept('429-minute', limited('rate_limit_exceeded', 5)),
  kept('429-minute-of-bytes', { ...limited('rate_limit_exceeded', 4), body: { reason: 'bytes' } }),
  kept('429-without-retry-after', { status: 429, error: 'rate_limit_exceeded' }, foreign(429)),
  kept('429-retry-after-is-a-date', {
    ...foreign(429),
    headers: { 'Retry-After': 'Fri, 31 Dec 1999 23:59:59 GMT' },
  }),
  kept('429-day-soon-over', limited('daily_limit_exceeded', 6)),
  kept('429-again-and-again', ...Array.from({ length: 3 }, () => limited('monthly_limit_exceeded', 2))),
  {
    name: '429-day-outlasts-the-process',
    needs: ['storage', 'clock'],
    service: { answers: [limited('daily_limit_exceeded', 7200)] },
    steps: [
      ...SEND,
      { answered: 1 },
      silent(2 * SECOND_MS),
      'restart',
      silent(),
      { deviceAheadMs: 3 * HOUR_MS },
      { serviceAheadMs: 3 * HOUR_MS },
      'restart',
    ],
  },
  {
    name: '429-more-than-a-minute-has',
    service: { minuteLimit: 4, answers: [limited('rate_limit_exceeded', 30)] },
    steps: [track(EIGHT), 'flush'],
    expect: { mostRequests: 3 },
  },

  {
    name: '413-halves',
    service: { answers: [{ status: 413, error: 'payload_too_large' }] },
    steps: [track(EIGHT), 'flush'],
    expect: { mostRequests: 3 },
  },
  {
    name: '413-down-to-the-large-one',
    service: { maxBytes: 9000 },
    steps: [track(names('small', 3)), track(['large'], 12_000), track(names('other', 3)), 'flush'],
    expect: { dropped: { too_large: ['large'] } },
  },
  {
    name: '413-one-event',
    service: { answers: [{ status: 413, error: 'payload_too_large' }] },
    steps: [track(['large']), 'flush', 'settle', silent()],
    expect: { dropped: { too_large: ['large'] }, mostRequests: 1 },
  },

  {
    name: '400-invalid-events',
    service: {},
    steps: [track([...FIVE.slice(0, 3), 'bad 0', 'event 3', 'bad 1', 'event 4']), 'flush', 'settle', silent()],
    expect: { dropped: { invalid: ['bad 0', 'bad 1'] }, mostRequests: 2 },
  },
  {
    name: '400-more-than-errors-names',
    service: {},
    steps: [track(names('bad', 70)), track(FIVE), 'flush', 'settle', silent()],
    expect: { dropped: { invalid: names('bad', 70) }, mostRequests: 2 },
  },
  {
    name: '400-all-events-invalid',
    service: {},
    steps: [track(names('bad', 3)), 'flush', 'settle', silent()],
    expect: { dropped: { invalid: names('bad', 3) }, mostRequests: 1 },
  },
  refused(
    '400-outside-of-events',
    {
      status: 400,
      error: 'validation_failed',
      body: { errors: [{ path: 'sdk_version', code: 'type' }], errors_total: 1 },
    },
    'invalid',
  ),
  refused(
    '400-outside-and-inside-of-events',
    {
      status: 400,
      error: 'validation_failed',
      body: {
        errors: [
          { path: 'sdk_version', code: 'type' },
          { path: 'events[0].name', code: 'length', event: 0 },
        ],
        errors_total: 2,
      },
    },
    'invalid',
  ),
  refusedTwice('400-invalid-json', { status: 400, error: 'invalid_json' }, 'invalid'),
  refusedTwice('400-of-something-between', foreign(400), 'invalid'),
  refused('401-unknown-key', { status: 401, error: 'invalid_app_key' }, 'unauthorized'),
  kept('401-origin', { status: 401, error: 'invalid_app_key', body: { reason: 'origin' } }),
  refused('402-subscription', { status: 402, error: 'subscription_inactive' }, 'subscription'),
  refused('402-trial', { status: 402, error: 'trial_expired' }, 'subscription'),
  refused('403-of-something-between', foreign(403), 'blocked'),
  refused('404', { status: 404, error: 'not_found' }, 'refused'),
  refused('405', { status: 405, error: 'method_not_allowed' }, 'refused'),
  refusedTwice('415', { status: 415, error: 'unsupported_media_type' }, 'refused'),
  refused('418-of-something-between', foreign(418), 'refused'),
  kept('200-of-something-between', foreign(200)),
  kept('408-500-502', foreign(408), foreign(500), foreign(502)),
  kept('504-though-stored', { ...foreign(504), works: true }),

  kept('answer-lost', { loses: 'answer' }),
  {
    // Half of a refusal names half of the events.
    name: 'answer-lost-halfway',
    service: { answers: [{ loses: 'half' }] },
    steps: [track([...FIVE, ...names('bad', 9)]), 'flush'],
    expect: { dropped: { invalid: names('bad', 9) } },
  },
  kept('connection-breaks', { loses: 'request' }, { loses: 'request' }),
  { name: 'no-connection', service: {}, steps: ['down', ...SEND, { quiet: SECOND_MS }, 'up'] },
  { ...kept('answer-late', { lateMs: 12 * SECOND_MS }), expect: { mostRequests: 1 } },
  kept('replay-unknown', {
    status: 202,
    works: true,
    headers: { 'Sluice-Replay': 'unknown' },
    body: { deduplicated: true },
  }),
  {
    name: 'replay-of-another-batch',
    service: { answers: [{ keyTaken: true }] },
    steps: [...SEND, 'settle', silent()],
    expect: { dropped: { key_reused: FIVE }, mostRequests: 1 },
  },
  kept('everything-goes-wrong', limited('rate_limit_exceeded', 1), { loses: 'request' }, { loses: 'answer' }),

  {
    name: 'client-report',
    service: {},
    steps: [track(['event 0', 'bad 0', 'bad 1']), 'flush', 'settle', track(['event 1']), 'flush'],
    expect: { dropped: { invalid: ['bad 0', 'bad 1'] }, reported: { invalid: 2 } },
  },

  {
    name: 'clock-two-hours-ahead',
    service: { aheadMs: -2 * HOUR_MS },
    steps: [track(['first 0']), 'flush', 'settle', track(FIVE), 'flush'],
    expect: { mayDrop: { invalid: ['first 0'] }, timesOf: 'event' },
  },
  {
    name: 'clock-four-days-behind',
    service: { aheadMs: 96 * HOUR_MS },
    steps: [track(['first 0']), 'flush', 'settle', track(FIVE), 'flush'],
    expect: { mayDrop: { invalid: ['first 0'] }, timesOf: 'event' },
  },
  {
    name: 'clock-half-an-hour-behind',
    service: { aheadMs: HOUR_MS / 2 },
    steps: [track(['first 0']), 'flush', 'settle', track(FIVE), 'flush'],
    expect: { timesOf: 'event' },
  },
  {
    name: 'clock-near-enough',
    service: { aheadMs: 120 * SECOND_MS },
    steps: [track(['event 0']), 'flush', 'settle', track(['event 1']), 'flush'],
    expect: { timesOf: 'event', untouched: true },
  },
  {
    name: 'clock-of-a-retry',
    service: { aheadMs: HOUR_MS / 2, answers: [overloaded()] },
    steps: SEND,
  },
  {
    name: 'clock-after-a-sleep',
    needs: ['clock'],
    service: { answers: [{ held: true }] },
    steps: [
      track(['first 0']),
      'flush',
      { requests: 1 },
      { deviceAheadMs: 2 * HOUR_MS },
      { serviceAheadMs: 2 * HOUR_MS },
      'release',
      'settle',
      track(FIVE),
      'flush',
    ],
    expect: { timesOf: 'event' },
  },

  {
    // Off by 310 s, of which half of the time that the answer took explains 15.
    name: 'clock-of-a-slow-answer',
    needs: ['clock'],
    service: { aheadMs: 325 * SECOND_MS, answers: [{ held: true }] },
    steps: [
      track(['first 0']),
      'flush',
      { requests: 1 },
      { deviceAheadMs: 30 * SECOND_MS },
      'release',
      'settle',
      // The answer is sent; until the SDK has read it, its clock has to stay.
      { quiet: SECOND_MS },
      // What follows may take two requests, and the answer to the first of them teaches nothing.
      { deviceAheadMs: 0 },
      { serviceAheadMs: 0 },
      track(FIVE),
      'flush',
    ],
    expect: { timesOf: 'event', untouched: true },
  },

  {
    name: 'opt-out',
    needs: ['opt_out'],
    service: { answers: [overloaded()] },
    steps: [...SEND, { answered: 1 }, 'opt_out', track(['while out']), 'flush', silent()],
    expect: { dropped: { consent: [...FIVE, 'while out'] } },
  },
  {
    name: 'opt-out-while-a-request-is-under-way',
    needs: ['opt_out'],
    service: { answers: [{ ...overloaded(), held: true }] },
    steps: [...SEND, { requests: 1 }, 'opt_out', 'release', silent()],
    expect: { dropped: { consent: FIVE } },
  },
  {
    name: 'opt-in-again',
    needs: ['opt_out'],
    service: {},
    steps: ['opt_out', track(['while out']), silent(), 'opt_in', ...SEND],
    expect: { dropped: { consent: ['while out'] } },
  },
  {
    name: 'opt-out-outlasts-the-process',
    needs: ['opt_out', 'storage'],
    service: {},
    steps: ['opt_out', 'restart', track(['while out']), 'flush', silent()],
    expect: { dropped: { consent: ['while out'] } },
  },

  {
    name: 'restart',
    needs: ['storage'],
    service: { answers: [overloaded()] },
    steps: [...SEND, { answered: 1 }, 'restart'],
  },
  {
    name: 'restart-while-a-request-is-under-way',
    needs: ['storage'],
    service: { answers: [{ never: true }] },
    steps: [...SEND, { requests: 1 }, 'restart'],
  },
  {
    name: 'restart-respects-retry-after',
    needs: ['storage'],
    service: { answers: [overloaded(8)] },
    steps: [...SEND, { answered: 1 }, silent(2 * SECOND_MS), 'restart'],
  },
  {
    name: 'expires-after-three-days',
    needs: ['clock'],
    service: { answers: [overloaded()] },
    steps: [...SEND, { answered: 1 }, { deviceAheadMs: 73 * HOUR_MS }, { serviceAheadMs: 73 * HOUR_MS }],
    expect: { dropped: { expired: FIVE } },
  },
]
