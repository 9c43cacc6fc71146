import { describe, expect, it } from 'vitest'
import { uploadPace } from '../../../src/http/upload-pace.ts'

describe('the pace of an upload', () => {
  it('earns more time with any byte in the first seconds, at most once a second', () => {
    const earnsMoreTime = uploadPace(0)
    expect(earnsMoreTime(1, 999)).toBe(false)
    expect(earnsMoreTime(1, 1000)).toBe(true)
    expect(earnsMoreTime(500_000, 1999)).toBe(false)
    expect(earnsMoreTime(1, 2000)).toBe(true)
    expect(earnsMoreTime(1, 10_000)).toBe(true)
  })

  it('earns none below 1,024 bytes a second after the first ten seconds, until it has caught up', () => {
    const earnsMoreTime = uploadPace(5000)
    expect(earnsMoreTime(1024, 5000 + 11_001)).toBe(false)
    expect(earnsMoreTime(1025, 5000 + 11_000)).toBe(true)
    expect(earnsMoreTime(50 * 1024 - 1, 5000 + 60_000)).toBe(false)
    expect(earnsMoreTime(50 * 1024, 5000 + 60_000)).toBe(true)
  })
})
