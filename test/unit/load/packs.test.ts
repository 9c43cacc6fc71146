// The files of bodies that the runner writes for k6.

import { mkdtempSync, readFileSync, rmSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { afterEach, describe, expect, it, vi } from 'vitest'
import { asciiBytes, cutBody, KEY_PLACEHOLDER, packName, partName } from '../../../load/k6/shared/packs.js'
import { writePacks } from '../../../load/run/packs.js'

const PLACE = { BASE_URL: 'http://127.0.0.1:1', APP_KEY: 'ak_x' }
/** What a virtual user of k6 may hold, and what k6 itself may, of one size. */
const [MAX_PART_BYTES, MAX_PACK_BYTES] = [524_288, 16_777_216]

const folders: string[] = []

afterEach(() => {
  vi.restoreAllMocks()
  for (const folder of folders.splice(0)) rmSync(folder, { recursive: true })
})

function write(script: string, given: Record<string, string> = {}): Record<string, string> {
  const folder = mkdtempSync(join(tmpdir(), 'sluice-packs-'))
  folders.push(folder)
  vi.spyOn(console, 'log').mockImplementation(() => {})
  return writePacks(folder, script, { ...PLACE, ...given })
}

/** Reads a pack as k6 does: each body by its place in its part. */
function read(folder: string, body: string, events: number, key = 'ak_y') {
  const path = join(folder, packName({ body, events, seed: 1 }))
  const parts = JSON.parse(readFileSync(`${path}.json`, 'utf8')) as number[][][]
  const files = parts.map((_, part) => new Uint8Array(readFileSync(partName(path, part))))
  const bodies = parts.flatMap((places, part) =>
    places.map((place) => Buffer.from(cutBody(files[part].buffer, place, asciiBytes(key))).toString()),
  )
  return { bodies, partBytes: files.map((file) => file.length), first: parts[0].length }
}

describe('packs of bodies', () => {
  it('are there for every size that the script sends, with as many bodies as were asked for', () => {
    const { PACKS, BODIES } = write('sweep', { SIZES: '2,100', BODIES: '30' })
    expect(BODIES).toBe('30')
    for (const events of [2, 100]) {
      const { bodies, partBytes } = read(PACKS, 'varied', events)
      expect(new Set(bodies).size).toBe(30)
      expect(partBytes.length > 1, 'in parts that a virtual user can hold').toBe(events === 100)
      expect(Math.max(...partBytes)).toBeLessThanOrEqual(MAX_PART_BYTES)
      for (const body of bodies) expect(JSON.parse(body).events).toHaveLength(events)
    }
    // A key as long as the one that stands in, and a longer one.
    for (const key of [KEY_PLACEHOLDER.replace('load', 'l0ad'), `ak_${'x'.repeat(60)}`]) {
      for (const body of read(PACKS, 'varied', 2, key).bodies) expect(JSON.parse(body)).toMatchObject({ app_key: key })
    }
  })

  it('say how many there are where those that were asked for do not fit', () => {
    const { PACKS, BODIES } = write('spike')
    const { bodies, partBytes, first } = read(PACKS, 'large', 100)
    expect(new Set(bodies).size).toBe(Number(BODIES))
    expect(bodies.length).toBeGreaterThan(30)
    expect(partBytes.reduce((sum, bytes) => sum + bytes, 0)).toBeLessThanOrEqual(MAX_PACK_BYTES)
    expect(first).toBe(1)
    expect(console.log).toHaveBeenCalledWith(expect.stringContaining(`${BODIES} rather than 200`))
  })

  it('are not written for a script that makes its bodies as text, nor for settings that do not do', () => {
    for (const given of [{ EVENTS: '101' }, { BODY: 'odd' }]) expect(write('steady', given)).toEqual({})
    expect([write('smoke'), write('sweep', { SIZES: '1,x' })]).toEqual([{}, {}])
  })
})
