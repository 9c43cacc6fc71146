import { closeSync, openSync } from 'node:fs'
import { describe, expect, it } from 'vitest'
import { maxOpenFiles, openFiles, openFilesIn } from '../../../src/lib/open-files.ts'

const LIMITS = `Limit                     Soft Limit           Hard Limit           Units
Max processes             95988                95988                processes
Max open files            FILES                1048576              files
Max locked memory         8388608              8388608              bytes
`

describe('the limit of open files', () => {
  it('is the soft one', () => {
    expect(openFilesIn(LIMITS.replace('FILES', '20000'))).toBe(20_000)
  })

  it('is bounded where there is none, and 1024 where it is not told', () => {
    expect(openFilesIn(LIMITS.replace('FILES', 'unlimited'))).toBe(1_048_576)
    expect(openFilesIn('')).toBe(1024)
  })

  it('is read from this system', () => {
    expect(maxOpenFiles()).toBeGreaterThan(0)
  })

  it('is met by the files that are open, where the system counts them', () => {
    const before = openFiles()
    const opened = Array.from({ length: 100 }, () => openSync('/dev/null', 'r'))
    const after = openFiles()
    for (const file of opened) closeSync(file)
    if (before === undefined) expect(after).toBeUndefined()
    else expect(after! - before).toBeGreaterThan(90)
  })
})
