import { describe, expect, test } from 'vitest'
import type { StreamFacts, StreamReport } from '../../../../src/queue/stream/stream.ts'
import { StreamState } from '../../../../src/queue/stream/stream-state.ts'

/** A state that is up, and its notices from then on. */
function upState(): { state: StreamState; notices: string[] } {
  const notices: string[] = []
  const state = new StreamState(
    (message) => notices.push(message),
    () => 0,
  )
  state.connected()
  state.answered(null)
  notices.length = 0
  return { state, notices }
}

/** What a look at a stream says of it, as far as the state asks. */
function looked(unsafe: string | null): StreamReport {
  return { kind: 'present', facts: { unsafe } as StreamFacts, created: false }
}

describe('the state of the stream', () => {
  test('is not up at a start with settings that would lose what is acknowledged, though it acknowledges', () => {
    const notices: string[] = []
    const state = new StreamState(
      (message) => notices.push(message),
      () => 0,
    )
    state.connected()
    state.reported(looked('it loses messages'))
    state.answered(null)
    expect(state.hasBeenUp).toBe(false)
    expect(state.isUnsafe).toBe(true)
    expect(state.refusalNow).toBe('stream_refused')
    expect(state.status).toEqual({ state: 'refusing', reason: 'it loses messages' })
    expect(notices).toEqual(['stream refuses messages: it loses messages: answering 503 until it takes them'])
    state.reported(looked(null))
    expect(state.hasBeenUp).toBe(true)
    expect(state.refusalNow).toBeNull()
    expect(notices.at(-1)).toBe('NATS: connected')
  })

  test('says of a NATS that is away that the spool keeps what it does not take, where there is one', () => {
    const notices: string[] = []
    for (const isSpooled of [true, false]) {
      const state = new StreamState(
        (message) => notices.push(message),
        () => 0,
        isSpooled,
      )
      state.disconnected('connection refused')
      state.connected()
      state.reported({ kind: 'absent' })
    }
    expect(notices).toEqual([
      'NATS away: connection refused: what it does not take is kept in the spool, on the disk of this node',
      'no stream in NATS: it is gone: what it does not take is kept in the spool, on the disk of this node',
      'NATS away: connection refused: answering 503 until it is back',
      'no stream in NATS: it is gone: answering 503 until there is one',
    ])
  })

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
