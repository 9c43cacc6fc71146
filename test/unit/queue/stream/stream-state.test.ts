import { describe, expect, test } from 'vitest'
import { StreamState } from '../../../../src/queue/stream/stream-state.ts'

/** A state that is up, and what it tells from then on. */
function upState(): { state: StreamState; told: string[] } {
  const told: string[] = []
  const state = new StreamState((message) => told.push(message))
  state.connected()
  state.answered(null)
  told.length = 0
  return { state, told }
}

describe('the state of the stream', () => {
  test('tells a full stream once, whatever repeats it recognises meanwhile', () => {
    const { state, told } = upState()
    for (let round = 0; round < 3; round++) {
      state.answered({ kind: 'refused', reason: 'maximum messages exceeded' })
      state.answered({ kind: 'duplicate', sequence: 1 })
    }
    expect(state.text).toBe('refusing: maximum messages exceeded')
    expect(state.isUp).toBe(true)
    expect(told).toEqual(['NATS: refusing: maximum messages exceeded'])
    state.answered({ kind: 'stored', sequence: 2 })
    expect(told).toEqual(['NATS: refusing: maximum messages exceeded', 'NATS: connected'])
  })
})
