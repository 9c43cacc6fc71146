// @ts-check
// What TLS on the public port costs, once connections stand: two services side by side, one with a certificate, by turns.

import { execFileSync } from 'node:child_process'
import { join } from 'node:path'
import { temporaryFolder } from '../shared/program.js'
import { casesOf } from './cases.js'
import { middle, REQUEST, table } from './report.js'
import { startService } from './servers.js'
import { compareLoads } from './turns.js'

/** @param {import('./turns.js').Options} options @returns {Promise<import('./turns.js').Section>} */
export async function tls(options) {
  const rounds = options.quick ? 1 : 3
  const env = certificate()
  const results = await compareLoads(options, {
    cases: casesOf({ events: options.quick ? [1] : [1, 10, 100] }),
    starts: () => ({ plain: startService, encrypted: () => startService({ env }) }),
    rounds,
    // Each run shakes hands on all its connections first.
    seconds: options.quick ? 4 : 8,
  })
  const title = `TLS on the public port: CPU µs a request, connections kept, embedded queue; medians of ${rounds}`
  const text = table(title, results, options, [
    REQUEST,
    ['without µs', ({ turns }) => middle(turns, ({ plain }) => plain.cpuUsPerRequest, 1)],
    ['with TLS µs', ({ turns }) => middle(turns, ({ encrypted }) => encrypted.cpuUsPerRequest, 1)],
    [
      'ratio',
      ({ turns }) => middle(turns, ({ plain, encrypted }) => encrypted.cpuUsPerRequest / plain.cpuUsPerRequest, 2),
    ],
  ])
  return { numbers: results, text }
}

/** @returns {Record<string, string>} */
function certificate() {
  const folder = temporaryFolder('bench')
  const [cert, key] = ['cert.pem', 'key.pem'].map((name) => join(folder, name))
  const make = 'req -x509 -newkey ec -pkeyopt ec_paramgen_curve:prime256v1 -nodes -days 2 -subj /CN=localhost'
  execFileSync('openssl', [...make.split(' '), '-keyout', key, '-out', cert], { stdio: 'ignore' })
  return { SLUICE_TLS_CERT: cert, SLUICE_TLS_KEY: key }
}
