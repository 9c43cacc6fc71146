// The overlay of docs/kubernetes.md, word for word, with each component and each pair of them in both orders: every object is
// in a namespace, and whatever names another object, a port or a pod finds it.

import { readdirSync, readFileSync } from 'node:fs'
import { cp, mkdir, writeFile } from 'node:fs/promises'
import { join, resolve } from 'node:path'
import { beforeAll, describe, expect, it } from 'vitest'
import { mistakesIn } from '../support/kubernetes-mistakes.ts'
import { buildKustomization, hasKubectl, type KubernetesObject } from '../support/kustomize.ts'
import { makeFolder } from '../support/service.ts'

const ROOT = resolve(import.meta.dirname, '../..')
const PAGE = readFileSync(join(ROOT, 'docs/kubernetes.md'), 'utf8')
/** Parts of the two overlays, which every overlay of one's own stands on. */
const OF_OVERLAYS = new Set(['nats', 'redis'])
const COMPONENTS = readdirSync(join(ROOT, 'deploy/components')).filter((name) => !OF_OVERLAYS.has(name))
/** One is the other with another edge. */
const EITHER = new Set(['portal', 'portal-gateway'])
const PAIRS = COMPONENTS.flatMap((one) =>
  COMPONENTS.filter((other) => other !== one && !(EITHER.has(one) && EITHER.has(other))).map((other) => [one, other]),
)

let overlays: string
beforeAll(async () => {
  const folder = await makeFolder()
  await cp(join(ROOT, 'deploy'), join(folder, 'deploy'), { recursive: true })
  overlays = join(folder, 'deploy/overlays')
})

/** The overlay of the page's step 3, beside the project's two. */
async function built(components: readonly string[]): Promise<KubernetesObject[]> {
  const [, sample = ''] = /```yaml\n( *apiVersion: kustomize.*?)```/s.exec(PAGE) ?? []
  const indent = sample.search(/\S/)
  const lines = sample.split('\n').map((line) => line.slice(indent))
  const overlay = join(overlays, `own-${components.join('+')}`)
  await mkdir(overlay)
  const more = `components: [${components.map((name) => `../../components/${name}`).join(', ')}]\n`
  await writeFile(join(overlay, 'kustomization.yaml'), lines.join('\n') + more)
  // What tells them apart is not in question here, and kubectl's takes a quarter of the time.
  return buildKustomization(overlay, hasKubectl ? 'kubectl' : 'kustomize')
}

/** In an order that no component has a part in. */
const sorted = (objects: readonly KubernetesObject[]): string[] =>
  objects
    .map((object) => JSON.stringify(object, (_, value: unknown) => (isList(value) ? sortedList(value) : value)))
    .toSorted()
const isList = (value: unknown): value is unknown[] => Array.isArray(value)
const sortedList = (list: unknown[]): unknown[] =>
  list.toSorted((one, other) => (JSON.stringify(one) < JSON.stringify(other) ? -1 : 1))

it('there are components to try', () => {
  expect(COMPONENTS).toEqual(expect.arrayContaining(['gateway', 'ingress', 'portal', 'portal-gateway', 'spool']))
})

describe.each(COMPONENTS)('the overlay of the page with %s', (component) => {
  it('leaves nothing without a namespace, and nothing that leads nowhere', async () => {
    expect(mistakesIn(await built([component]))).toEqual([])
  })
})

describe.each(PAIRS.filter(([one, other]) => one < other))('the overlay of the page with %s and %s', (one, other) => {
  it('is whole in both orders, and the same', async () => {
    const objects = await built([one, other])
    const turned = await built([other, one])
    expect([mistakesIn(objects), mistakesIn(turned)]).toEqual([[], []])
    expect(sorted(turned)).toEqual(sorted(objects))
  })
})

it('the two portals exclude each other, with an error that names the object', async () => {
  await expect(built(['portal', 'portal-gateway'])).rejects.toThrow(/sluice-portal/)
})
