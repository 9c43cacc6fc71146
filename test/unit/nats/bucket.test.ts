// A bucket without a leader, as a new one is at first: a write that nobody took is tried again, and no other.

import { expect, it } from 'vitest'
import { Bucket } from '../../../src/nats/bucket.ts'
import { ManualTimers } from '../../support/timers.ts'

const cause = Object.assign(new Error('jetstream is not enabled'), { name: 'JetStreamNotEnabled' })
const untaken = () => new Error('JetStream is not enabled', { cause })

/** Answers each attempt by the next of `answers`, and then by the last one. */
class StandIn extends Bucket {
  readonly attempts: (string | number | null)[][] = []
  readonly #answers: readonly (Error | 'done' | 'beaten')[]

  constructor(...answers: readonly (Error | 'done' | 'beaten')[]) {
    super(null as never, 'SLUICE_APPS')
    this.#answers = answers
  }

  override async write(key: string, text: string | null, revision: number): Promise<'done' | 'beaten'> {
    this.attempts.push([key, text, revision])
    const answer = this.#answers[Math.min(this.attempts.length, this.#answers.length) - 1]
    if (answer instanceof Error) throw answer
    return answer
  }
}

function write(bucket: StandIn) {
  const timers = new ManualTimers()
  let result: unknown = 'open'
  void bucket.writeOnceLed('shop', '{}', { revision: 7, timers }).then(
    (written) => (result = written),
    (error: unknown) => (result = error),
  )
  return {
    after: async (ms: number) => {
      await timers.pass(ms)
      return result
    },
  }
}

it('is written to as soon as somebody takes the request', async () => {
  const bucket = new StandIn(untaken(), untaken(), 'beaten')
  const written = write(bucket)
  expect(await written.after(0)).toBe('open')
  expect(await written.after(1000)).toBe('beaten')
  expect(bucket.attempts).toEqual([...Array(3)].map(() => ['shop', '{}', 7]))
})

it('is given up after some seconds', async () => {
  const bucket = new StandIn(untaken())
  const written = write(bucket)
  expect(await written.after(9000)).toBe('open')
  expect(await written.after(2000)).toMatchObject({ message: 'JetStream is not enabled' })
  const { length } = bucket.attempts
  await written.after(60_000)
  expect(bucket.attempts).toHaveLength(length)
})

it('is not written to again where it is not known whether the first attempt was stored', async () => {
  const bucket = new StandIn(new Error('timeout', { cause: new Error('timeout') }), 'done')
  const written = write(bucket)
  expect(await written.after(1000)).toMatchObject({ message: 'timeout' })
  expect(bucket.attempts).toHaveLength(1)
})
