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
      state.answered({ kind: 'refused', reason: 'maximum messages exceeded', isFull: true })
      state.answered({ kind: 'duplicate', sequence: 1 })
    }
    expect(state.status).toEqual({ state: 'full', reason: 'maximum messages exceeded' })
    expect(state.isUp).toBe(true)
    const full = 'stream full: maximum messages exceeded: answering 503 until there is room'
    expect(notices).toEqual([full])
    state.answered({ kind: 'stored', sequence: 2 })
    expect(notices).toEqual([full, 'NATS: connected'])
  })
})
