// @ts-check
// What each load script asks, and what its settings are where nothing else is said: read by the scripts, by the runner that
// prepares for them, and by its help. Pure.

/** @typedef {Readonly<Record<string, string | number>>} Defaults */

const COMMON_DEFAULTS = /** @type {Defaults} */ ({
  RATE: 500,
  DURATION: '1m',
  EVENTS: 10,
  BODY: 'varied',
  BODIES: 200,
  KEYED: 1,
  SEED: 1,
  VUS: 200,
  LATENCY_OBJECTIVE_MS: 50,
  AVAILABILITY_OBJECTIVE: 0.999,
})

/** Where a script differs, and settings of its own. */
const SCRIPT_DEFAULTS = /** @type {Readonly<Record<string, Defaults>>} */ ({
  smoke: { EVENTS: 3, BODIES: 10, VUS: 1 },
  steady: { WARM_UP: '5s' },
  ramp: { VUS: 400, WARM_UP: '5s', STEPS: 8, GROWTH: 1.4, STEP_DURATION: '10s' },
  spike: {
    RATE: 20,
    EVENTS: 100,
    BODY: 'large',
    VUS: 400,
    WARM_UP: '5s',
    SPIKE_RATE: 600,
    SPIKE_DURATION: '10s',
    BASE_DURATION: '10s',
    BEST_VUS: 4,
    ACCEPTED_SHARE: 0.9,
  },
  soak: { RATE: 100, DURATION: '2h', SAMPLE_EVERY: '10s', GROWTH_PERCENT: 5, GROWTH_MB: 32 },
  sweep: { VUS: 100, WARM_UP: '5s', STEP_DURATION: '10s', EVENT_RATE: 5000, SIZES: '1,5,10,25,50,100' },
  limits: { APP_KEY: 'ak_load_limits_greedy', EVENTS_PER_MINUTE: 1200, WINDOWS: 2, OVER: '', VUS: 60 },
})

/** Of one script, or without a name of all. @param {string} [script] @returns {Defaults} */
export function defaultsOf(script = '') {
  return { ...COMMON_DEFAULTS, ...SCRIPT_DEFAULTS[script] }
}

/** What each script asks. @type {Readonly<Record<string, string>>} */
export const QUESTIONS = {
  smoke: 'Does every kind of answer come as specified?',
  steady: 'Do the objectives hold at this rate?',
  ramp: 'At which rate does the service break?',
  spike: 'Does a spike above capacity get quick 503s, and is it over when it is over?',
  soak: 'Does memory stay flat, and do the objectives hold, for hours?',
  sweep: 'What do batches of each size cost?',
  limits: 'Does an app at twice its plan get its plan, and are the headers and `Retry-After` right?',
}
