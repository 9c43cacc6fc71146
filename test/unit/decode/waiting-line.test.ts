import { describe, expect, it } from 'vitest'
import { WaitingLine } from '../../../src/decode/waiting-line.ts'

const KB = 1024

describe('a queue of bodies for the explainer', () => {
  it('returns them in order, up to 64 KB at a time, and a larger one alone', () => {
    const line = new WaitingLine()
    for (const [slot, kilobytes] of [40, 20, 10, 500, 1].entries()) line.join(slot, kilobytes * KB, 0)
    expect([line.take(), line.take(), line.take(), line.take()]).toEqual([[0, 1], [2], [3], [4]])
    expect(line.length).toBe(0)
  })

  it('returns at most 64 at a time', () => {
    const line = new WaitingLine()
    for (let slot = 0; slot < 100; slot++) line.join(slot, 1, 0)
    expect(line.take()).toHaveLength(64)
    expect(line.take()).toHaveLength(36)
  })

  it('accepts 2 MB, and always one body', () => {
    const line = new WaitingLine()
    expect(line.join(0, 3000 * KB, 0)).toBe(true)
    expect(line.join(1, 1, 0)).toBe(false)
    line.take()
    for (let slot = 0; slot < 4; slot++) expect(line.join(slot, 512 * KB, 0)).toBe(true)
    expect(line.join(4, 1, 0)).toBe(false)
    line.take()
    expect(line.join(4, 512 * KB, 0)).toBe(true)
  })

  it('removes those that have waited for more than 250 ms, with their bytes', () => {
    const line = new WaitingLine()
    line.join(0, 1024 * KB, 0)
    line.join(1, 1024 * KB, 10)
    line.join(2, 0, 20)
    expect(line.takeLate(250)).toEqual([])
    expect(line.takeLate(261)).toEqual([0, 1])
    expect(line.length).toBe(1)
    expect(line.join(3, 2048 * KB, 261)).toBe(true)
  })
})
