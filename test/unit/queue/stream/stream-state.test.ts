import { describe, expect, test } from 'vitest'
import { StreamState } from '../../../../src/queue/stream/stream-state.ts'

/** A state that is up, and its notices from then on. */
function upState(): { state: StreamState; notices: string[] } {
  const notices: string[] = []
  const state = new StreamState((message) => notices.push(message))
  state.connected()
  state.answered(null)
  notices.length = 0
  return { state, notices }
}

describe('the state of the stream', () => {
  test('reports a full stream once, whatever duplicates it recognizes meanwhile', () => {
    const { state, notices } = upState()
    for (let round = 0; round < 3; round++) {
      state.answered({ kind: 'refused', reason: 'maximum messages exceeded' })
      state.answered({ kind: 'duplicate', sequence: 1 })
    }
    expect(state.text).toBe('refusing: maximum messages exceeded')
    expect(state.isUp).toBe(true)
    expect(notices).toEqual(['NATS: refusing: maximum messages exceeded'])
    state.answered({ kind: 'stored', sequence: 2 })
    expect(notices).toEqual(['NATS: refusing: maximum messages exceeded', 'NATS: connected'])
  })
})
