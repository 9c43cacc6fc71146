// NATS as deploy/ starts it: what it acknowledges is on the disk, on one version, and the nodes are shown that.

import { readdirSync, readFileSync } from 'node:fs'
import { join, resolve } from 'node:path'
import { expect, test } from 'vitest'
import { parse } from 'yaml'
import { readConfig } from '../../src/settings/config.ts'
import { environmentOf, workload } from '../support/kubernetes-view.ts'
import { buildKustomization } from '../support/kustomize.ts'

const DEPLOY = resolve(import.meta.dirname, '../../deploy')
const files = readdirSync(DEPLOY, { recursive: true, encoding: 'utf8' })
const read = (file: string): string => readFileSync(join(DEPLOY, file), 'utf8')

const configurations = files.filter((file) => file.endsWith('.conf') && /^jetstream \{/m.test(read(file)))

test('there is a configuration for each way to start it', () => {
  expect(configurations.toSorted()).toEqual([
    'compose/nats.conf',
    'overlays/local/nats.conf',
    'overlays/production/nats.conf',
  ])
  // None is started by flags, which cannot say it.
  expect(files.filter((file) => /\.ya?ml$/.test(file) && /--jetstream|\b-js\b/.test(read(file)))).toEqual([])
})

test.each(configurations)('%s syncs what it acknowledges', (file) => {
  const [jetstream] = /^jetstream \{[^}]*\}/m.exec(read(file)) ?? ['']
  expect(jetstream).toMatch(/^ {2}sync_interval: always$/m)
})

test('the image is of one version, the one on which the tests run', () => {
  const tags = files
    .filter((file) => /\.ya?ml$/.test(file))
    .flatMap((file) =>
      [...read(file).matchAll(/(?:image: nats:|- name: nats\n +newTag: )(\S+)/g)].map(([, tag]) => tag),
    )
  expect(tags).toEqual(['2.15.2-alpine', '2.15.2-alpine', '2.15.2-alpine'])
})

const settingsOf = async (overlay: string): Promise<ReturnType<typeof readConfig>> => {
  const objects = await buildKustomization(`deploy/overlays/${overlay}`)
  const [container] = workload(objects, 'sluice').pod.containers
  const urls: Readonly<Record<string, string>> = { REDIS_URL: 'redis://redis', NATS_URL: 'nats://nats' }
  return readConfig(environmentOf(objects, container, (_secret, key) => urls[key]))
}

test('production wants to be shown it, and its nodes may ask', async () => {
  expect((await settingsOf('production')).requireSync).toBe(true)
  expect(read('overlays/production/nats.conf').split('"$SYS.REQ.SERVER.PING.VARZ"')).toHaveLength(4)
})

test('elsewhere the nodes have the monitoring address', async () => {
  expect((await settingsOf('local')).natsMonitorUrls).toEqual(['http://nats:8222'])
  const { services } = parse(read('compose.yaml'), { merge: true }) as {
    services: Readonly<Record<string, { environment?: Readonly<Record<string, string>> }>>
  }
  expect(readConfig(services['sluice-1'].environment ?? {}).natsMonitorUrls).toEqual(['http://nats:8222'])
})
