// The crash run itself, for a few rounds on either ground, so that it stays fit for a long one.

import { spawn } from 'node:child_process'
import { text } from 'node:stream/consumers'
import { fileURLToPath } from 'node:url'
import { describe, expect, it } from 'vitest'

const RUN = fileURLToPath(new URL('../../load/crash/main.js', import.meta.url))
const ROUNDS = 5
const SEED = Date.now() % 1_000_000
const TIMEOUT_MS = 300_000

describe(`${ROUNDS} rounds of kill -9 (seed ${SEED})`, { timeout: TIMEOUT_MS }, () => {
  it.each([
    ['one node with its journal', []],
    ['two nodes with Redis and NATS', ['--shared']],
  ])('lose nothing and double nothing: %s', async (_ground, flags) => {
    const args = [RUN, '--rounds', String(ROUNDS), '--seed', String(SEED), ...flags]
    const run = spawn(process.execPath, args, { stdio: ['ignore', 'pipe', 'pipe'] })
    const code = new Promise((resolve) => run.once('close', resolve))
    const [output, complaints] = await Promise.all([text(run.stdout), text(run.stderr)])
    expect({ code: await code, complaints: /^(?!\d+ rounds).+/m.exec(complaints)?.[0] ?? '' }).toEqual({
      code: 0,
      complaints: '',
    })
    const [, rounds, accepted] =
      /: (\d+) rounds, \d+ requests, (\d+) batches answered 202, \d+ records, 0 lost, 0 twice$/m.exec(output) ?? []
    expect(Number(rounds)).toBe(ROUNDS)
    expect(Number(accepted)).toBeGreaterThan(0)
  })
})
