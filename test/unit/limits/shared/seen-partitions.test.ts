import { describe, expect, it } from 'vitest'
import { SeenPartitions } from '../../../../src/limits/shared/seen-partitions.ts'
import type { PartitionReply } from '../../../../src/limits/shared/take.ts'

const reply = (parts: Partial<PartitionReply> = {}): PartitionReply => ({
  closedMinute: 100,
  beat: 7,
  lostAtMs: 0,
  isForgotten: false,
  ...parts,
})

/** What a node that has had these replies about partition 1 learns from the last one, and asks next. */
function after(...replies: PartitionReply[]) {
  const seen = new SeenPartitions(3)
  let learned = seen.learn([], [])
  for (const each of replies) learned = seen.learn(seen.questionsOf([{ partition: 1 }], new Set()), [each])
  const [{ closedMinute, beat }] = seen.questionsOf([], new Set([1]))
  return { forgotten: [...learned.forgotten], lost: learned.lost, closedMinute, beat }
}

describe('what a node has seen of a partition', () => {
  it('is the newest closed minute and the highest beat, also where answers come out of order', () => {
    expect(after(reply(), reply({ closedMinute: 101, beat: 9 }), reply({ closedMinute: 101, beat: 8 }))).toEqual({
      forgotten: [],
      lost: [],
      closedMinute: 101,
      beat: 9,
    })
  })

  it('outlasts a Redis that has forgotten it', () => {
    const forgetful = reply({ closedMinute: 20, beat: 1_000_007, lostAtMs: 5, isForgotten: true })
    expect(after(reply(), forgetful)).toEqual({ forgotten: [1], lost: [1], closedMinute: 100, beat: 1_000_007 })
    expect(after(reply(), forgetful, forgetful), 'one loss').toMatchObject({ forgotten: [1], lost: [] })
  })

  it('follows a fence that rightly goes back', () => {
    expect(after(reply({ closedMinute: 218 }), reply())).toMatchObject({ forgotten: [], closedMinute: 100 })
  })

  it('takes an old loss for none of its own at a start, and tells one that it slept through', () => {
    const old = reply({ lostAtMs: 5 })
    expect(after(old)).toMatchObject({ lost: [] })
    expect(after(old, old)).toMatchObject({ lost: [] })
    expect(after(old, reply({ lostAtMs: 9000 }))).toMatchObject({ lost: [1], forgotten: [] })
  })

  it('is asked once for each partition of a call, and raised where a heartbeat is due', () => {
    const seen = new SeenPartitions(3)
    const asked = seen.questionsOf([{ partition: 2 }, { partition: 0 }, { partition: 2 }], new Set([0]))
    expect(asked.map(({ partition, raisesBeat }) => [partition, raisesBeat])).toEqual([
      [0, true],
      [2, false],
    ])
  })
})
