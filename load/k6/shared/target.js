// @ts-check
// Where a script sends: its settings from k6's environment, the addresses, and a check that the service is there.

import exec from 'k6/execution'
import http from 'k6/http'
import { EVENTS_PATH, readSettings } from './settings.js'

export { EVENTS_PATH }

const CHECK_TIMEOUT = '5s'

/** @typedef {import('./settings.js').Settings} Settings */

/** Call `settings.check()` once the script has read settings of its own, so that every mistake is said at once. @param {string} script */
export const readTarget = (script) => readSettings(__ENV, { script })

/** The address for this virtual user: each keeps to one node, as a client behind a balancer of connections does. @param {Settings} settings */
export function eventsUrl({ baseUrls }) {
  return `${baseUrls[exec.vu.idInTest % baseUrls.length]}${EVENTS_PATH}`
}

/** For `setup`: throws, which ends the run, where no service answers as this one does. @param {Settings} settings */
export function checkTarget({ baseUrls, adminUrls }) {
  for (const baseUrl of baseUrls) {
    const response = http.get(`${baseUrl}${EVENTS_PATH}`, { timeout: CHECK_TIMEOUT, tags: { kind: 'check' } })
    if (response.status !== 405) {
      const found = response.status === 0 ? response.error : `status ${response.status} to GET ${EVENTS_PATH}, not 405`
      throw new Error(`no service at ${baseUrl}: ${found}`)
    }
  }
  for (const adminUrl of adminUrls) {
    const response = http.get(`${adminUrl}/readyz`, { timeout: CHECK_TIMEOUT, tags: { kind: 'check' } })
    if (response.status !== 200)
      throw new Error(`${adminUrl}/readyz says ${response.status || response.error}, not 200`)
  }
}
