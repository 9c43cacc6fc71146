import { describe, expect, it } from 'vitest'
import { Turn } from '../../../src/http/turn.ts'

const fail = (error: unknown) => {
  throw error
}

const endOfTurn = () => new Promise((resolve) => setImmediate(resolve))

function askTimes(turn: Turn, times: number): number {
  let immediate = 0
  for (let asked = 0; asked < times; asked++) if (turn.mayAnswerNow(false)) immediate++
  return immediate
}

describe('a turn of the event loop', () => {
  it('allows 16 answers inside the callbacks of the engine, over all of them', () => {
    const turn = new Turn(fail)
    turn.enter()
    expect(askTimes(turn, 10)).toBe(10)
    turn.leave()
    turn.enter()
    expect(askTimes(turn, 10)).toBe(6)
  })

  it('allows 16 more in the next turn', async () => {
    const turn = new Turn(fail)
    turn.enter()
    askTimes(turn, 20)
    await endOfTurn()
    expect(askTimes(turn, 20)).toBe(16)
  })

  it('delays no answer outside the callbacks', () => {
    const turn = new Turn(fail)
    turn.enter()
    turn.leave()
    expect(askTimes(turn, 1000)).toBe(1000)
    expect(turn.mayAnswerNow(true)).toBe(true)
  })

  it('delays each answer that closes its connection, and does not count it', () => {
    const turn = new Turn(fail)
    turn.enter()
    expect(turn.mayAnswerNow(true)).toBe(false)
    expect(askTimes(turn, 20)).toBe(16)
  })

  it('allows 4,096 small pieces of bodies, and as many in the next turn', async () => {
    const turn = new Turn(fail)
    const taken = () => Array.from({ length: 5000 }, () => turn.mayTakePiece()).filter(Boolean).length
    expect(taken()).toBe(4096)
    await endOfTurn()
    expect(taken()).toBe(4096)
  })

  it('runs the work for its end once, in order', async () => {
    const turn = new Turn(fail)
    const ran: number[] = []
    turn.enter()
    turn.atEnd(() => ran.push(1))
    turn.atEnd(() => {
      ran.push(2)
      turn.atEnd(() => ran.push(3))
    })
    turn.leave()
    expect(ran).toEqual([])
    await endOfTurn()
    expect(ran).toEqual([1, 2])
    await endOfTurn()
    await endOfTurn()
    expect(ran).toEqual([1, 2, 3])
  })

  it('reports work that throws at its end, and runs the rest', async () => {
    const faults: unknown[] = []
    const turn = new Turn((error) => faults.push(error))
    let ran = 0
    turn.atEnd(() => {
      throw new Error('the answer broke')
    })
    turn.atEnd(() => {
      ran++
    })
    await endOfTurn()
    expect(ran).toBe(1)
    expect(faults).toEqual([new Error('the answer broke')])
  })
})
