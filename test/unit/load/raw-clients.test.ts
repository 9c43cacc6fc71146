// The judge of what goes on beside the script `bad-clients`.

import { readFileSync } from 'node:fs'
import { resolve } from 'node:path'
import { describe, expect, test } from 'vitest'
import { parse } from 'yaml'
import { RAW_CLIENTS } from '../../../load/run/raw-clients.js'
import { faultsOfClients, MOST_MEMORY_BYTES } from '../../../load/run/verify-bad-clients.js'
import { quantity } from '../../support/kubernetes-view.ts'

const MEBIBYTE = 1_048_576
const kinds = Object.fromEntries(Object.keys(RAW_CLIENTS).map((kind) => [kind, { right: 3, wrong: {} }]))
const well = { kinds, firstBytes: 100 * MEBIBYTE, mostBytes: 180 * MEBIBYTE, looks: 9 }

describe('the judge of bad clients', () => {
  test('finds nothing wrong where every kind ended as it must', () => {
    expect(faultsOfClients(well)).toEqual([])
  })

  test('names each kind that ended otherwise, and how', () => {
    const wrong = { ...kinds, 'declares 10 GiB': { right: 2, wrong: { closed: 4, 202: 1 } } }
    expect(faultsOfClients({ ...well, kinds: wrong })).toEqual([
      'declares 10 GiB: 202, 1 times',
      'declares 10 GiB: closed, 4 times',
    ])
  })

  test('does not take a kind that never ran for one that was right', () => {
    const { 'two lengths': _, ...rest } = kinds
    expect(faultsOfClients({ ...well, kinds: rest })).toEqual(['two lengths: none came to its end'])
  })

  test('finds a node that takes more memory than its bounds explain', () => {
    expect(faultsOfClients({ ...well, mostBytes: 449 * MEBIBYTE })).toEqual(['the node took 449 MiB of memory'])
    expect(faultsOfClients({ ...well, mostBytes: MOST_MEMORY_BYTES })).toEqual([])
    expect(faultsOfClients({ ...well, mostBytes: Number.NaN })).toEqual(['the node took NaN MiB of memory'])
  })

  test('holds a node to less than a pod is killed at, with a tenth to spare', () => {
    const file = resolve(import.meta.dirname, '../../../deploy/base/deployment.yaml')
    const [container] = parse(readFileSync(file, 'utf8')).spec.template.spec.containers
    expect(MOST_MEMORY_BYTES).toBeLessThanOrEqual(0.9 * quantity(container.resources.limits.memory))
  })
})
