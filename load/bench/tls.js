// @ts-check
// What TLS on the public port costs, once connections stand: two services side by side, one with a certificate, by turns.

import { execFileSync } from 'node:child_process'
import { join } from 'node:path'
import { SEED } from './cases.js'
import { median, medianRatio, number, table } from './report.js'
import { startService, temporaryFolder } from './servers.js'
import { runWrk, writeBodies } from './wrk.js'

/** @type {import('./wrk.js').Case[]} */
const CASES = [1, 10, 100].map((events) => ({ events: /** @type {1} */ (events), keyed: false, varied: false }))

/** @param {import('./sections.js').Options} options @returns {Promise<import('./sections.js').Section>} */
export async function tls(options) {
  const rounds = options.quick ? 1 : 3
  // Each run shakes hands on all its connections first.
  const seconds = options.quick ? 4 : 8
  const [plain, encrypted] = [await startService(), await startService({ env: certificate() })]
  const numbers = []
  for (const kind of options.quick ? CASES.slice(0, 1) : CASES) {
    options.progress(`tls: ${kind.events} events`)
    const bodies = await writeBodies(options.folder, kind, SEED)
    const measure = async (/** @type {boolean} */ isTls, /** @type {number} */ length) =>
      (
        await runWrk(isTls ? encrypted : plain, bodies, {
          keyed: kind.keyed,
          seconds: length,
          scheme: isTls ? 'https' : 'http',
        })
      ).cpuUsPerRequest
    for (const isTls of [false, true]) await measure(isTls, 1)
    const runs = []
    for (let round = 0; round < rounds; round++)
      runs.push({ plain: await measure(false, seconds), tls: await measure(true, seconds) })
    numbers.push({ kind, runs })
  }
  await Promise.all([plain.stop(), encrypted.stop()])
  const rows = numbers.map(({ kind, runs }) => {
    const [without, withTls] = [runs.map((run) => run.plain), runs.map((run) => run.tls)]
    return [
      `${kind.events} event${kind.events > 1 ? 's' : ''}`,
      number(median(without), 1),
      number(median(withTls), 1),
      number(medianRatio(withTls, without), 2),
    ]
  })
  const title = `TLS on the public port: CPU µs a request, connections kept, embedded queue; medians of ${rounds}`
  return { numbers, text: table(title, ['request', 'without µs', 'with TLS µs', 'ratio'], rows, options) }
}

/** @returns {Record<string, string>} */
function certificate() {
  const folder = temporaryFolder()
  const [cert, key] = ['cert.pem', 'key.pem'].map((name) => join(folder, name))
  const make = [
    'req',
    '-x509',
    '-newkey',
    'ec',
    '-pkeyopt',
    'ec_paramgen_curve:prime256v1',
    '-nodes',
    '-days',
    '2',
    '-subj',
    '/CN=localhost',
  ]
  execFileSync('openssl', [...make, '-keyout', key, '-out', cert], { stdio: 'ignore' })
  return { SLUICE_TLS_CERT: cert, SLUICE_TLS_KEY: key }
}
