// @ts-check
// Real Redis and NATS servers for tests and load. `restart()` finds what was stored.

import { mkdirSync } from 'node:fs'
import { join } from 'node:path'
import { startProgram } from './processes.js'

/** SLUICE_TEST_NATS_SERVER names the program that all tests run, in place of the one in PATH. */
export const NATS_SERVER = process.env['SLUICE_TEST_NATS_SERVER'] ?? 'nats-server'

/** @typedef {import('./processes.js').Program & { url: string }} Store */
/** `before`: stands before its command. @typedef {{ folder?: string, before?: readonly string[], program?: string }} Place */

/** Every write goes to an append-only file, and is synced first unless `extra` says otherwise. @param {readonly string[]} [extra] @param {Place} [place] */
export function startRedis(extra = [], place = {}) {
  return startStore('redis', place, (port, data) => {
    const listening = ['--port', String(port), '--bind', '127.0.0.1', '--dir', data, '--logfile', '']
    return ['redis-server', ...listening, '--save', '', '--appendonly', 'yes', '--appendfsync', 'always', ...extra]
  })
}

/** With JetStream. @param {readonly string[]} [extra] @param {Place} [place] */
export function startNats(extra = [], { program = NATS_SERVER, ...place } = {}) {
  return startStore('nats', place, (port, data) => {
    const listening = ['--addr', '127.0.0.1', '--port', String(port)]
    return [program, ...listening, '--jetstream', '--store_dir', data, ...extra]
  })
}

/** @param {'redis' | 'nats'} name @param {Place} place @param {(port: number, data: string) => string[]} command @returns {Promise<Store>} */
async function startStore(name, { folder, before = [] }, command) {
  const program = await startProgram({
    name,
    ...(folder !== undefined && { folder }),
    command: (at) => {
      const data = join(at.folder, 'data')
      mkdirSync(data, { recursive: true })
      return [...before, ...command(at.port, data)]
    },
  })
  return Object.assign(Object.create(program), { url: `${name}://127.0.0.1:${program.port}` })
}
