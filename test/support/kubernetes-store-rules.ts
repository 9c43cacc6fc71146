// What the configurations of NATS and Redis must have in common with the pods that they run in: ports, folders, times
// and sizes stand in both.

import type { IContainer } from 'kubernetes-models/v1/Container'
import { MAX_RECORD_BYTES } from '../../src/queue/stream/stream.ts'
import type { Rule } from './kubernetes-rules.ts'
import { environmentOf, objectsOf, portsOf, quantity, type Workload, workloadsOf } from './kubernetes-view.ts'
import type { KubernetesObject } from './kustomize.ts'

type Objects = readonly KubernetesObject[]

export const STORE_RULES: Readonly<Record<string, Rule>> = {
  "NATS's configuration is that of its pod": (objects) =>
    mistakesOf(objects, { workload: 'nats', map: 'nats-config', file: 'nats.conf', check: natsMistakes }),
  "Redis's configuration is that of its pod": (objects) =>
    mistakesOf(objects, { workload: 'redis', map: 'redis-config', file: 'redis.conf', check: redisMistakes }),
}

interface Store {
  readonly objects: Objects
  readonly owner: Workload
  readonly container: IContainer
  readonly text: string
  readonly volumeBytes: number
  readonly memoryBytes: number
}

interface Wanted {
  readonly workload: string
  readonly map: string
  readonly file: string
  readonly check: (store: Store) => string[]
}

function mistakesOf(objects: Objects, { workload, map, file, check }: Wanted): string[] {
  const owner = workloadsOf(objects).find(({ name }) => name === workload)
  // Production's Redis is the operator's.
  if (owner === undefined) return []
  const [container] = owner.pod.containers
  return check({
    objects,
    owner,
    container,
    text: configurationOf(objects, map, file),
    volumeBytes: volumeBytesOf(owner),
    memoryBytes: quantity(container.resources?.limits?.['memory']),
  }).map((mistake) => `${owner.title}: ${mistake}`)
}

/** A generated ConfigMap's name has a hash behind it. */
export function configurationOf(objects: Objects, map: string, file: string): string {
  const found = objectsOf(objects, 'ConfigMap').find(({ metadata }) => metadata.name.startsWith(`${map}-`))
  return (found?.['data'] as Record<string, string> | undefined)?.[file] ?? ''
}

function volumeBytesOf({ object }: Workload): number {
  const { volumeClaimTemplates: [claim] = [] } = object['spec'] as {
    volumeClaimTemplates?: { spec: { resources: { requests: { storage: string } } } }[]
  }
  return quantity(claim?.spec.resources.requests.storage)
}

function natsMistakes({ objects, owner, container, text, volumeBytes, memoryBytes }: Store): string[] {
  const mistakes: string[] = []
  const value = (name: string): string | undefined => new RegExp(`^ *${name}: "?([^"\\s]+)"?$`, 'm').exec(text)?.[1]
  const ports = [...text.matchAll(/^ *(?:http_)?port: (\d+)$/gm)].map(([, port]) => port)
  if (sorted(ports) !== openedBy(owner))
    mistakes.push(`listens on ${sorted(ports)}, and its ports are ${openedBy(owner)}`)
  if (!(sizeOf(value('max_file_store')) < volumeBytes)) mistakes.push('may store more than its volume holds')
  if (sizeOf(value('max_payload') ?? '1MB') < MAX_RECORD_BYTES) mistakes.push('refuses the largest record')
  const memory =
    sizeOf(value('max_memory_store')) + quantity(environment(objects, container)['GOMEMLIMIT']?.slice(0, -1))
  if (memory > memoryBytes) mistakes.push('may use more memory than its limit')
  if (!isMounted(container, value('store_dir'))) mistakes.push('stores outside of its volumes')
  const missing = [...text.matchAll(/: \$(\w+)/g)].map(([, name]) => name)
  for (const name of missing.filter((each) => environment(objects, container)[each] === undefined)) {
    mistakes.push(`${name} is not in its environment`)
  }
  const leaving = container.lifecycle?.preStop?.exec?.command?.join(' ')
  if (leaving !== undefined) {
    const pidFile = value('pid_file')
    if (!leaving.endsWith(`=${pidFile}`) || !isMounted(container, pidFile)) mistakes.push('preStop does not find it')
    const graceSeconds = owner.pod.terminationGracePeriodSeconds ?? 30
    if (!(Number.parseInt(value('lame_duck_duration') ?? '120', 10) < graceSeconds)) {
      mistakes.push('is killed before its clients are sent away')
    }
  }
  return mistakes
}

function redisMistakes({ owner, container, text, memoryBytes }: Store): string[] {
  const mistakes: string[] = []
  const value = (name: string): string => new RegExp(`^${name} (\\S+)$`, 'm').exec(text)?.[1] ?? ''
  const port = value('port')
  if (port !== openedBy(owner)) mistakes.push(`listens on ${port}, and its port is ${openedBy(owner)}`)
  if (!isMounted(container, value('dir'))) mistakes.push('stores outside of its volumes')
  // While the log is written anew, what changes is there twice.
  if (!(sizeOf(value('maxmemory')) * 2 <= memoryBytes)) mistakes.push('may use more memory than its limit')
  if (value('maxmemory-policy') !== 'noeviction') mistakes.push('throws counters away when its memory is out')
  if (value('appendonly') !== 'yes') mistakes.push('forgets app records')
  return mistakes
}

function sorted(ports: readonly string[]): string {
  return ports.toSorted((left, right) => left.localeCompare(right)).join()
}

function openedBy({ pod }: Workload): string {
  return sorted(portsOf(pod).map(({ containerPort }) => String(containerPort)))
}

function environment(objects: Objects, container: IContainer): Record<string, string> {
  return environmentOf(objects, container, () => 'example')
}

function isMounted({ volumeMounts = [] }: IContainer, path: string | undefined): boolean {
  return volumeMounts.some(({ mountPath, readOnly }) => !readOnly && path?.startsWith(mountPath))
}

/** `90GB`, `128mb`: both servers count in powers of two. */
function sizeOf(text = ''): number {
  const match = /^(\d+)([kmg])b$/i.exec(text)
  return match === null ? Number.NaN : Number(match[1]) * 1024 ** ('kmg'.indexOf(match[2].toLowerCase()) + 1)
}
