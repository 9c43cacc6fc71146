// @ts-check
// Question: does an app that sends at twice its plan get its plan, no more and no less, and can its client trust what it is
// told? Each UTC minute is judged by itself; `npm run load` then counts the same minutes in the queue.

import { sleep } from 'k6'
import exec from 'k6/execution'
import { Counter, Rate } from 'k6/metrics'
import { prepareBodies } from './shared/bodies.js'
import { greedyApp, obedientApp, smallApps, windowEndSeconds } from './shared/limit-apps.js'
import { begin, end } from './shared/node.js'
import { alone, arrivals, fewVus, objectives, options as optionsOf, soundness } from './shared/objectives.js'
import { post } from './shared/send.js'
import { summarise } from './shared/summary.js'
import { count, tableOf } from './shared/tables.js'
import { readTarget } from './shared/target.js'
import { figure } from './shared/verdict.js'

const MINUTE_SECONDS = 60
/** What is left of a minute, and what is used of the next, in a short run. */
const EDGE_SECONDS = 8
/** Small ones come after large ones, so that a window can be filled to its last event. */
const SIZES = [7, 4, 1]
const MEAN_EVENTS = SIZES.reduce((sum, size) => sum + size, 0) / SIZES.length
const LEAST_SHARE = 0.99
const MOST_TRIES = 60
/** Retry-After is in whole seconds, and so is the service's Date. */
const RETRY_SLACK_SECONDS = 1

const settings = readTarget('limits')
const eventsPerMinute = settings.whole('EVENTS_PER_MINUTE', 60, 1_000_000)
const windows = settings.whole('WINDOWS', 0, 60)
const isShort = windows === 0
// A short run has seconds where a whole window has a minute.
const over = settings.text('OVER') === '' ? (isShort ? 40 : 2) : settings.number('OVER', 1.1, 1000)
settings.check()

const seconds = isShort ? 2 * EDGE_SECONDS : windows * MINUTE_SECONDS
const windowCount = isShort ? 2 : windows
const requestsPerSecond = (over * eventsPerMinute) / MINUTE_SECONDS / MEAN_EVENTS
const bodies = SIZES.map((events) => prepareBodies(settings, { name: `limits-${events}`, events, bodies: 20 }))
/** Of the obedient client: one for each window. */
const turns = isShort ? 1 : windows
const greedy = greedyApp(eventsPerMinute)
const obedient = obedientApp(eventsPerMinute)
/** Of shared limits a node knows what is left only as of its last call to Redis. */
const isRemainingExact = settings.isLocal && settings.baseUrls.length === 1

const eventsInWindow = new Counter('limits_window_events')
const refusals = new Counter('limits_refusals')
const obeyed = new Rate('limits_obeyed')
const wrongRetryAfter = new Counter('limits_retry_after_wrong')
const wrongRemaining = new Counter('limits_remaining_wrong')
const wrongSmall = new Counter('limits_used_up_wrong')

/** @returns {import('./shared/objectives.js').Thresholds} */
function windowThresholds() {
  const whole = Array.from({ length: windowCount }, (_, index) => [
    `limits_window_events{window:${index}}`,
    [`count<=${eventsPerMinute}`, `count>=${Math.floor(LEAST_SHARE * eventsPerMinute)}`],
  ])
  // The last requests may fall into the window after.
  return {
    ...Object.fromEntries(whole),
    [`limits_window_events{window:${windowCount}}`]: [`count<=${eventsPerMinute}`],
  }
}

export const options = {
  ...optionsOf(settings, {
    scenarios: {
      greedy: arrivals(settings, {
        rate: requestsPerSecond,
        durationMs: seconds * 1000,
        exec: 'sendTooMuch',
        vus: fewVus(settings, requestsPerSecond),
      }),
      obedient: { ...alone('obey', seconds + MINUTE_SECONDS, turns), gracefulStop: '0s' },
      usedUp: { ...alone('useUp', 30), gracefulStop: '0s' },
    },
    thresholds: {
      ...soundness(settings),
      // How fast it answers is another script's question.
      ...objectives({ ...settings, latencyObjectiveMs: null }),
      ...windowThresholds(),
      limits_obeyed: ['rate==1'],
      limits_retry_after_wrong: ['count==0'],
      limits_remaining_wrong: ['count==0'],
      limits_used_up_wrong: ['count==0'],
      'limits_refusals{code:rate_limit_exceeded}': ['count>0'],
      'limits_refusals{code:daily_limit_exceeded}': ['count>0'],
      'limits_refusals{code:monthly_limit_exceeded}': ['count>0'],
    },
  }),
  setupTimeout: `${2 * MINUTE_SECONDS}s`,
}

/** @typedef {import('./shared/node.js').Begun & { firstResetSeconds: number }} Begun */

/** Waits for the beginning of a minute or, in a short run, for the last seconds of one. @returns {Begun} */
export function setup() {
  const begun = begin(settings)
  const intoMinute = (Date.now() / 1000) % MINUTE_SECONDS
  const wantedSeconds = isShort ? MINUTE_SECONDS - EDGE_SECONDS : MINUTE_SECONDS
  const isLate = isShort && intoMinute > wantedSeconds && intoMinute < wantedSeconds + 1
  if (!isLate) sleep((wantedSeconds - intoMinute + MINUTE_SECONDS) % MINUTE_SECONDS)
  // A moment more, since sleep may end early by a little.
  sleep(0.1)
  return { ...begun, firstResetSeconds: windowEndSeconds(greedy, 'rate_limit_exceeded', Date.now()) }
}

/** @param {Begun} begun */
export function teardown(begun) {
  end(settings, begun)
}

/** Takes no notice of refusals. @param {Begun} begun */
export function sendTooMuch(begun) {
  const turn = exec.scenario.iterationInTest
  send(greedy, turn % SIZES.length, turn, begun)
}

/** @typedef {{ resetSeconds: number, remaining: number }} Standing */
/** What this client was told last; null: nothing yet, or something it cannot count on from. @type {Standing | null} */
let standing = null

/** One turn: sends until it is refused, waits as it is told, and sends again. @param {Begun} begun */
export function obey(begun) {
  const gapSeconds = MEAN_EVENTS / ((over * eventsPerMinute) / MINUTE_SECONDS)
  for (let turn = 0; ; turn++) {
    const answer = sendCounted(turn, begun)
    if (answer.code === 'rate_limit_exceeded') {
      sleep(answer.retryAfterSeconds)
      obeyed.add(sendCounted(0, begun).code === 'accepted')
      return
    }
    sleep(gapSeconds)
  }
}

/** Holds X-RateLimit-Remaining against what it was before, as only a client that sends one request at a time can. @param {number} turn @param {Begun} begun */
function sendCounted(turn, begun) {
  const index = turn % SIZES.length
  const events = SIZES[index]
  const answer = send(obedient, index, turn, begun)
  if (answer.code !== 'accepted' && answer.code !== 'rate_limit_exceeded') return answer
  // The first request of a window, and of the run, finds all that the plan has.
  const isFirst = standing?.resetSeconds !== answer.resetSeconds
  const before = isFirst || standing === null ? eventsPerMinute : standing.remaining
  // What was taken at the end of a minute and is answered in the next one has taken nothing of that.
  const isOfMinuteBefore = isFirst && answer.code === 'accepted' && answer.remaining === eventsPerMinute
  if (isRemainingExact && !isOfMinuteBefore && !fits(answer, before, events)) {
    wrongRemaining.add(1)
    console.error(`remaining ${answer.remaining} after ${answer.code} of ${events}, before it ${before}`)
  }
  standing = { resetSeconds: answer.resetSeconds, remaining: answer.remaining }
  return answer
}

/** @param {import('./shared/send.js').Sent} answer @param {number} before @param {number} events */
function fits({ code, remaining }, before, events) {
  return code === 'accepted' ? remaining === before - events : remaining === before && before < events
}

/** The apps whose day or month is small: exactly what they may, and then the right refusal. @param {Begun} begun */
export function useUp(begun) {
  for (const app of smallApps()) {
    let accepted = 0
    let refusedSingles = 0
    for (let turn = 0; turn < MOST_TRIES && refusedSingles < 2; turn++) {
      const index = turn % SIZES.length
      const answer = send(app.record, index, turn, begun, app.code)
      if (answer.code === 'accepted') accepted += SIZES[index]
      else if (answer.code === app.code && SIZES[index] === 1) refusedSingles++
    }
    // Elsewhere they may have sent before this run.
    const isRight = settings.isLocal ? accepted === app.allowed : accepted <= app.allowed
    if (isRight && refusedSingles === 2) continue
    wrongSmall.add(1)
    console.error(
      `${app.record.app_id}: ${accepted} events accepted of ${app.allowed}, ${refusedSingles} refusals of one event`,
    )
  }
}

/**
 * @param {import('./shared/limit-apps.js').LimitedRecord} app @param {number} index of the size @param {number} turn @param {Begun} begun
 * @param {string} refusal the code it may meet beside 202
 */
function send(app, index, turn, { firstResetSeconds }, refusal = 'rate_limit_exceeded') {
  const tags = { app: app.app_id }
  const expected = /** @type {import('./shared/answers.js').Code[]} */ (['accepted', refusal])
  const events = SIZES[index]
  const answer = post(settings, bodies[index].at(turn, app.app_key), { events, expected, isStrict: true, tags })
  if (answer.code === 'accepted' && app === greedy) {
    eventsInWindow.add(events, { window: String((answer.resetSeconds - firstResetSeconds) / MINUTE_SECONDS) })
  }
  if (answer.status === 429) {
    refusals.add(1, { code: answer.code })
    const secondsLeft = windowEndSeconds(app, answer.code, answer.serverSeconds * 1000) - answer.serverSeconds
    if (Math.abs(answer.retryAfterSeconds - secondsLeft) > RETRY_SLACK_SECONDS) {
      wrongRetryAfter.add(1)
      console.error(`${answer.code}: Retry-After ${answer.retryAfterSeconds}, and the window ends in ${secondsLeft} s`)
    }
  }
  return answer
}

/** @param {import('./shared/verdict.js').RunData} data */
export function handleSummary(data) {
  const accepted = Array.from(
    { length: windowCount },
    (_, index) => figure(data, `limits_window_events{window:${index}}`, 'count') || 0,
  )
  const obeyedTurns = (figure(data, 'limits_obeyed', 'passes') || 0) + (figure(data, 'limits_obeyed', 'fails') || 0)
  return summarise(settings, data, {
    // One that is never refused, or cut off in its wait, has not shown that it can obey.
    unmet:
      obeyedTurns < turns ? [`the obedient client was refused and sent again ${obeyedTurns} times of ${turns}`] : [],
    tables: [
      tableOf(
        `events accepted of the greedy app, by UTC minute${isShort ? ' (the end of one, the beginning of the next)' : ''}`,
        [...accepted.entries()],
        [
          ['window', ([index]) => String(index + 1)],
          ['accepted', ([, events]) => count(events)],
          ['plan', () => count(eventsPerMinute)],
          ['share', ([, events]) => `${((100 * events) / eventsPerMinute).toFixed(2)}%`],
        ],
      ),
    ],
    notes: [
      `sent at ${over} times the plan, through ${settings.baseUrls.length} ${settings.baseUrls.length === 1 ? 'address' : 'addresses'}`,
      ...(isRemainingExact
        ? []
        : ['X-RateLimit-Remaining was not held to the event: that wants one node of this run’s own']),
    ],
    found: { eventsPerMinute, over, accepted },
  })
}
