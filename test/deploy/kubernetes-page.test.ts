// docs/kubernetes.md, done as it says: the commands that make the Secrets, and the overlay of an operator's own.

import { execFile } from 'node:child_process'
import { mkdir, readFile, writeFile } from 'node:fs/promises'
import { join, relative, resolve } from 'node:path'
import { promisify } from 'node:util'
import { expect, it } from 'vitest'
import { parseNatsUrl } from '../../src/nats/address.ts'
import { policiesOf, workload, workloadsOf } from '../support/kubernetes-view.ts'
import { buildKustomization, type KubernetesObject, parseObjects } from '../support/kustomize.ts'
import { natsConfiguration, writeFiles } from '../support/manifest-nats.ts'
import { NATS_SERVER } from '../support/nats.ts'
import { type RuleFile, runbookUrls } from '../support/rules.ts'
import { makeFolder } from '../support/service.ts'

const ROOT = resolve(import.meta.dirname, '../..')
const run = promisify(execFile)

const folder = await makeFolder()
const page = await readFile(join(ROOT, 'docs/kubernetes.md'), 'utf8')

/** The block of code that holds these words, without the indent of the list that it stands in. */
function block(language: string, words: string): string {
  const fences = page.matchAll(new RegExp(`^( *)\`\`\`${language}\\n(.*?)^ *\`\`\`$`, 'gms'))
  const found = [...fences].find(([whole]) => whole.includes(words))
  if (found === undefined) throw new Error(`no block of the page holds ${words}`)
  return found[2].replaceAll(new RegExp(`^${found[1]}`, 'gm'), '')
}

it('makes Secrets whose passwords fit together, and name the servers that there are', async () => {
  // What kubectl would be called with, a line each.
  const script = `kubectl() { printf '%s\\n' "$@"; }\n${block('sh', 'create secret generic')}`
  const { stdout } = await run('bash', ['-euo', 'pipefail', '-c', script], { cwd: ROOT })
  const secrets = Object.fromEntries(
    stdout.split('generic\n').map((command) => {
      const found = command.matchAll(/^--from-literal=([\w.]+)=(.*)$/gm)
      return [command.split('\n')[0], Object.fromEntries([...found].map(([, key, value]) => [key, value]))]
    }),
  ) as Record<string, Record<string, string>>
  const literals = secrets['nats-passwords']
  const users = ['sluice', 'sluice2', 'operator', 'reader', 'system']
  const passwords = users.map((user) => {
    const [variable, password] = (literals[`${user}.conf`] ?? '').split(': ')
    expect(variable).toBe(`NATS_${user.toUpperCase()}_PASSWORD`)
    return password
  })
  const [, ofRoutes] = /password: (\w+),/.exec(literals['routes.conf']) ?? []
  passwords.push(ofRoutes)
  expect(literals['routes.conf'].match(/'nats:[^']*'/g)).toEqual(
    [0, 1, 2].map((at) => `'nats://routes:${ofRoutes}@nats-${at}.nats:6222'`),
  )
  // nats-server takes what begins with a digit for a number, and a URL wants nothing escaped.
  for (const password of passwords) expect(password).toMatch(/^[a-z][a-z0-9]{40,}$/)
  expect(new Set(passwords).size).toBe(passwords.length)

  const production = await buildKustomization('deploy/overlays/production')
  writeFiles(folder, literals)
  await writeFile(join(folder, 'nats.conf'), natsConfiguration(production))
  await run(NATS_SERVER, ['-t', '-c', join(folder, 'nats.conf')], { env: { ...process.env, POD_NAME: 'nats-0' } })
  // The pods mount these files and no others.
  const mounted = workload(production, 'nats').pod.volumes?.flatMap(({ projected }) => projected?.sources ?? [])
  const items = mounted?.find(({ secret }) => secret?.name === 'nats-passwords')?.secret?.items
  expect(items?.map(({ key, path }) => [key, path])).toEqual(Object.keys(literals).map((name) => [name, name]))

  const { servers, user, password } = parseNatsUrl(secrets['sluice-connections']['NATS_URL'])
  expect({ user, password }).toEqual({ user: 'sluice', password: passwords[0] })
  const toolbox = parseNatsUrl(secrets['toolbox-connections']['NATS_URL'])
  expect(toolbox).toMatchObject({ servers, user: 'operator', password: passwords[2] })
  const nats = workloadsOf(production).find(({ name }) => name === 'nats')
  const pods = Array.from({ length: nats?.replicas ?? 0 }, (_, at) => ({ host: `nats-${at}.nats`, port: 4222 }))
  expect(servers).toEqual(pods)
  for (const name of ['sluice-connections', 'toolbox-connections'])
    expect(secrets[name]['REDIS_URL']).toMatch(/^rediss:/)
})

it('has an ExternalSecret with the keys that the pods of sluice read from that Secret, and no others', async () => {
  const [{ metadata, spec }] = parseObjects(block('yaml', 'kind: ExternalSecret'))
  const { target, data } = spec as { target: { name: string }; data: { secretKey: string }[] }
  const objects = await buildKustomization('deploy/overlays/production')
  const read = [...JSON.stringify(objects).matchAll(/"secretKeyRef":(\{[^}]*\})/g)].map(
    ([, reference]) => JSON.parse(reference) as { name: string; key: string },
  )
  const keys = new Set(read.filter(({ name }) => name === target.name).map(({ key }) => key))
  expect(data.map(({ secretKey }) => secretKey).toSorted()).toEqual([...keys].toSorted())
  expect(keys.size).toBe(3)
  expect(metadata).toMatchObject({ name: target.name, namespace: 'sluice' })
})

it('has an overlay for monitoring that adds a label, and leads each alert to the runbooks elsewhere', async () => {
  const overlay = join(folder, 'monitoring')
  await mkdir(overlay)
  const monitoring = relative(overlay, join(ROOT, 'deploy/monitoring'))
  const text = block('yaml', 'resources: [../monitoring]').replace('../monitoring', monitoring)
  await writeFile(join(overlay, 'kustomization.yaml'), text)
  const objects = await buildKustomization(overlay)
  for (const { kind, metadata } of objects) {
    expect(metadata.labels?.['release'], kind).toBe('kube-prometheus-stack')
  }
  const rule = objects.find(({ kind }) => kind === 'PrometheusRule')
  const urls = runbookUrls(rule as KubernetesObject & { spec: RuleFile })
  expect(urls.length).toBeGreaterThan(20)
  for (const url of urls) expect(url).toMatch(/^https:\/\/wiki\.example\.com\/runbooks\.md#sluice[a-z]+$/)
})

it('has an overlay that puts an image of its own in the place of the example', async () => {
  const overlay = join(folder, 'overlay')
  await mkdir(overlay)
  const production = relative(overlay, join(ROOT, 'deploy/overlays/production'))
  const text = block('yaml', 'resources: [../production]').replace('../production', production)
  await writeFile(join(overlay, 'kustomization.yaml'), text)
  const objects = await buildKustomization(overlay)
  const images = workloadsOf(objects).flatMap(({ pod }) => pod.containers.map(({ image }) => image))
  expect(images).toContainEqual(expect.stringMatching(/^your\.registry\/sluice:\d/))
  expect(images.join()).not.toContain('example.com')
  const policy = policiesOf(objects).find(({ metadata }) => metadata.name === 'sluice-to-redis')
  expect(policy?.spec?.egress?.flatMap(({ to }) => to?.map(({ ipBlock }) => ipBlock?.cidr))).toEqual(['10.20.30.0/24'])
})
