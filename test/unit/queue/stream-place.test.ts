import { describe, expect, it } from 'vitest'
import { StreamPlace } from '../../../src/queue/stream-place.ts'

const FIRST = '2026-11-20T12:00:00Z'
const SECOND = '2026-11-20T13:00:00Z'

describe('the place of a process in the stream', () => {
  it('is not known before the stream was seen', () => {
    expect(new StreamPlace().mark).toBeNull()
  })

  it('is the end of the stream as it was found, as long as nothing is stored', () => {
    const place = new StreamPlace()
    place.see(FIRST, 40)
    place.see(FIRST, 50)
    expect(place.mark).toBe(40)
    place.publish()
    expect(place.mark).toBe(40)
  })

  it('is the beginning where something was sent before the stream was seen', () => {
    const place = new StreamPlace()
    place.publish()
    expect(place.mark).toBe(0)
    place.see(FIRST, 40)
    expect(place.mark).toBe(0)
  })

  it('moves with what is settled, and not with what is only acknowledged', () => {
    const place = new StreamPlace()
    place.see(FIRST, 40)
    expect(place.stored(43, 0)).toBe(false)
    expect([place.settled, place.mark]).toEqual([0, 40])
    place.settle()
    expect([place.settled, place.mark]).toEqual([43, 43])
  })

  it('begins anew in a stream that was made anew', () => {
    const place = new StreamPlace()
    place.see(FIRST, 40)
    place.stored(43, 0)
    place.settle()
    place.see(SECOND, 7)
    expect([place.settled, place.mark]).toEqual([0, 0])
  })

  it('keeps what the new stream has acknowledged before it was seen', () => {
    const place = new StreamPlace()
    place.see(FIRST, 40)
    place.stored(43, 0)
    place.settle()
    expect(place.stored(2, 43)).toBe(true)
    place.see(SECOND, 7)
    expect(place.settled).toBe(2)
  })
})
