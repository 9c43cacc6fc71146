// What must hold between the objects of an overlay, and between them and the service, which no schema can say.

import { readFileSync } from 'node:fs'
import { resolve } from 'node:path'
import type { IHorizontalPodAutoscaler } from 'kubernetes-models/autoscaling/v2/HorizontalPodAutoscaler'
import type { IPodDisruptionBudget } from 'kubernetes-models/policy/v1/PodDisruptionBudget'
import { describe, expect, it } from 'vitest'
import { packageVersion } from '../../src/lib/version.ts'
import { MAX_RECORD_BYTES } from '../../src/queue/stream/stream.ts'
import { type Config, readConfig } from '../../src/settings/config.ts'
import { WATCHDOG_GRACE_MS } from '../../src/start/ending.ts'
import {
  configurationOf,
  environmentOf,
  hasPort,
  objectsOf,
  podSelectorOf,
  policiesOf,
  portsOf,
  quantity,
  type Selector,
  selects,
  servicesOf,
  titleOf,
  type Workload,
  workload,
  workloadsOf,
} from '../support/kubernetes-view.ts'
import { buildKustomization, type KubernetesObject } from '../support/kustomize.ts'

/** Node with its code, heap, buffers and sockets: `npm run bench -- --only footprint` prints a node's memory under load. */
const PROCESS_BYTES = 160 * 2 ** 20
const KEY_BYTES = 30
/** Beside the ring: a quarter of it for bodies that gather, another for those that are inflated. */
const RING_SHARES = 1.5
/** Secrets are made by the operator, as this page says. */
const PAGE = readFileSync(resolve(import.meta.dirname, '../../docs/kubernetes.md'), 'utf8')

const [local, production] = await Promise.all(
  ['local', 'production'].map((name) => buildKustomization(`deploy/overlays/${name}`)),
)

describe.each([
  { overlay: 'local', objects: local },
  { overlay: 'production', objects: production },
])('in $overlay', ({ objects }) => {
  const workloads = workloadsOf(objects)
  const services = servicesOf(objects)
  const policies = policiesOf(objects)
  const sluice = workload(objects, 'sluice')
  const [container] = sluice.pod.containers
  const env = environmentOf(objects, container, exampleSecret)
  /** Throws where the pods would not start. */
  const settings = (): Config => readConfig(env)
  const foundBy = (selector: Selector | undefined): Workload[] =>
    workloads.filter(({ labels }) => selects(selector, labels))

  it('docs/kubernetes.md makes the Secrets that pods need', () => {
    for (const { title, pod } of workloads) {
      const sources = (pod.volumes ?? []).flatMap(({ projected }) => projected?.sources ?? [])
      for (const { name, items = [] } of sources.map(({ secret }) => secret ?? {})) {
        for (const { key } of items) expect(secretsToMake(name), title).toContain(key)
      }
      for (const { valueFrom } of pod.containers.flatMap(({ env: variables = [] }) => variables)) {
        const { secretKeyRef } = valueFrom ?? {}
        if (secretKeyRef) expect(secretsToMake(secretKeyRef.name), title).toContain(secretKeyRef.key)
      }
    }
  })

  it('traffic is let through on both sides, and only the port for events is open to all', () => {
    for (const { title, labels } of workloads) {
      const own = policies.filter((policy) => selects(podSelectorOf(policy), labels))
      const types = own.flatMap(({ spec }) => spec?.policyTypes ?? [])
      expect(types, title).toEqual(expect.arrayContaining(['Ingress', 'Egress']))
      for (const { from, ports = [] } of own.flatMap(({ spec }) => spec?.ingress ?? [])) {
        if (!from?.length)
          expect(
            ports.map(({ port }) => port),
            title,
          ).toEqual(['events'])
        for (const { port } of ports)
          expect(
            foundBy(labels).some(({ pod }) => hasPort(pod, port)),
            title,
          ).toBe(true)
      }
    }
    for (const policy of policies) {
      for (const { to = [], ports = [] } of policy.spec?.egress ?? []) {
        for (const { labels, pod } of to.flatMap(({ podSelector }) => foundBy(podSelector))) {
          const open = policies
            .filter((each) => selects(podSelectorOf(each), labels))
            .flatMap(({ spec }) => spec?.ingress ?? [])
            .filter(({ from }) =>
              foundBy(podSelectorOf(policy)).some((one) =>
                from?.some(({ podSelector }) => selects(podSelector, one.labels)),
              ),
            )
            .flatMap((rule) => (rule.ports ?? []).map(({ port }) => portNumber(pod, port)))
          for (const { port } of ports) expect(open, titleOf(policy)).toContain(portNumber(pod, port))
        }
      }
    }
  })

  it("images have a full version, and sluice the package's", () => {
    for (const { name, image = '' } of workloads.flatMap(({ pod }) => pod.containers)) {
      expect(image).toMatch(/:\d+\.\d+\.\d+[^:/]*$/)
      if (name === 'sluice') expect(image.split(':').at(-1)).toBe(packageVersion())
    }
  })

  it('the settings are known and sound, listen on the ports of the pod, and name stores that are there', () => {
    const config = settings()
    const listens = { events: config.publicPort, admin: config.adminPort }
    const opens = portsOf(sluice.pod).map(({ name, containerPort }) => [name, containerPort])
    expect(Object.fromEntries(opens)).toEqual(listens)
    expect([config.publicHost, config.adminHost, config.embedded]).toEqual(['::', '::', false])
    expect(env, 'there would be a thread for each core of the machine').toHaveProperty('SLUICE_PARSERS')
    expect(workload(objects, 'nats').replicas).toBeGreaterThanOrEqual(config.stream.replicas)
    const pods = workloads.flatMap(({ name, replicas = 1 }) =>
      Array.from({ length: replicas }, (_, at) => `${name}-${at}`),
    )
    for (const url of [config.redis?.url, ...(config.nats?.url.split(',') ?? [])].map((each) => new URL(each ?? ''))) {
      const names = url.hostname.split('.')
      // Redis in production is the operator's.
      if (names.at(-2) === 'example') continue
      const service = services.find(({ metadata }) => metadata.name === names.at(-1))
      expect(
        service?.spec?.ports?.map(({ port }) => port),
        url.host,
      ).toContain(Number(url.port))
      if (names.length > 1) expect(pods).toContain(names[0])
    }
  })

  it('a pod is given longer to end than its drain takes, and new connections while others hear of it', () => {
    const config = settings()
    const graceMs = (sluice.pod.terminationGracePeriodSeconds ?? 30) * 1000
    // The delay is part of the drain, and the watchdog ends what outlives it.
    expect(graceMs).toBeGreaterThan(config.shutdownMs + 2 * WATCHDOG_GRACE_MS)
    expect(graceMs).toBeGreaterThan(config.shutdownMs + config.drainDelayMs)
    expect(config.drainDelayMs).toBeGreaterThan(0)
  })

  it('one pod of several may go at a time, and the autoscaler alone counts the nodes', () => {
    const [scaler] = objectsOf<IHorizontalPodAutoscaler & KubernetesObject>(objects, 'HorizontalPodAutoscaler')
    const minReplicas = scaler?.spec?.minReplicas ?? 1
    if (scaler?.spec !== undefined) {
      const { scaleTargetRef: target, maxReplicas } = scaler.spec
      expect([target.kind, target.name, sluice.replicas]).toEqual(['Deployment', 'sluice', undefined])
      expect(minReplicas).toBeGreaterThanOrEqual(3)
      expect(maxReplicas).toBeGreaterThan(minReplicas)
    }
    for (const { title, name, labels, replicas = minReplicas } of workloads) {
      const budgets = objectsOf<IPodDisruptionBudget & KubernetesObject>(objects, 'PodDisruptionBudget')
      const own = budgets.filter((budget) => selects(podSelectorOf(budget), labels))
      const least = name === 'sluice' ? minReplicas : replicas
      expect(
        own.map(({ spec }) => spec?.maxUnavailable),
        title,
      ).toEqual(least > 1 ? [1] : [])
    }
    expect(sluice.object['spec']).toMatchObject({ strategy: { rollingUpdate: { maxUnavailable: 0 } } })
    // Wanted, not required: a machine that has no room counts as one with no pod.
    const spreads = (sluice.pod.topologySpreadConstraints ?? []).map(({ whenUnsatisfiable }) => whenUnsatisfiable)
    expect(spreads).toEqual(['ScheduleAnyway', 'ScheduleAnyway'])
  })

  it('memory is what the settings may use, and no quota stops the event loop', () => {
    const config = settings()
    for (const { title, pod } of workloads) {
      for (const { resources } of pod.containers) {
        const { requests = {}, limits = {} } = resources ?? {}
        expect(quantity(requests['cpu']), title).toBeGreaterThan(0)
        expect(quantity(requests['memory']), title).toBeGreaterThan(0)
        expect(quantity(limits['memory']), title).toBeGreaterThanOrEqual(quantity(requests['memory']))
      }
    }
    const { requests = {}, limits = {} } = container.resources ?? {}
    const mayUse = config.ringBytes * RING_SHARES + config.maxKeys * KEY_BYTES + PROCESS_BYTES
    expect(quantity(limits['memory'])).toBeGreaterThanOrEqual(mayUse)
    expect(limits).not.toHaveProperty('cpu')
    // The acceptor is one thread: against a larger request the autoscaler would see it idle when it is full.
    expect(quantity(requests['cpu'])).toBeLessThanOrEqual(1)
  })

  it('names are asked for at the machine itself where a cache is there, and as they stand', () => {
    const spec = policies.find(({ metadata }) => metadata.name === 'sluice')?.spec
    const names = (spec?.egress ?? []).filter(({ ports = [] }) => ports.some(({ port }) => port === 53))
    // A rule without addresses holds for 169.254.20.10 as well.
    expect(names.map(({ to, ports }) => [to, ports?.map(({ protocol }) => protocol)])).toEqual([
      [undefined, ['UDP', 'TCP']],
    ])
    expect(sluice.pod.dnsConfig?.options).toEqual([{ name: 'ndots', value: '2' }])
    const hosts = [settings().redis?.url, ...(settings().nats?.url.split(',') ?? [])].map(
      (url) => new URL(url ?? '').hostname,
    )
    // Service names have fewer dots than that, and need the cluster's suffixes.
    for (const host of hosts.filter((one) => !one.includes('example'))) expect(host.split('.').length).toBeLessThan(3)
  })

  it('a node reaches names, Redis and NATS, and nothing on the internet', () => {
    const own = policies.filter((policy) => selects(podSelectorOf(policy), sluice.labels))
    const rules = own.flatMap(({ spec }) => spec?.egress ?? []).filter(({ ports }) => ports?.[0]?.port !== 53)
    const monitors = settings().natsMonitorUrls.map((url) => Number(new URL(url).port))
    expect(new Set(rules.flatMap(({ ports }) => ports?.map(({ port }) => port)))).toEqual(
      new Set([4222, 6379, ...monitors]),
    )
    for (const { to = [] } of rules) {
      expect(to.length).toBeGreaterThan(0)
      for (const { podSelector, ipBlock } of to) {
        if (ipBlock) expect(['10.0.0.0/8', '172.16.0.0/12', '192.168.0.0/16', 'fc00::/7']).toContain(ipBlock.cidr)
        else expect(foundBy(podSelector)).toHaveLength(1)
      }
    }
  })

  it('no argument of a process is a secret, and no tool that prunes takes what holds events', () => {
    for (const { title, pod } of workloads) {
      const secrets = new Set(
        pod.containers.flatMap(({ env: variables = [] }) =>
          variables.filter(({ valueFrom }) => valueFrom?.secretKeyRef !== undefined).map(({ name }) => name),
        ),
      )
      const words = pod.containers.flatMap(({ args = [], command = [] }) => args.concat(command))
      const named = words.flatMap((word) => [...word.matchAll(/\$\((\w+)\)/g)].map(([, name]) => name))
      expect(
        named.filter((name) => secrets.has(name)),
        title,
      ).toEqual([])
    }
    const kept = objects.filter(({ kind }) => kind === 'Namespace' || kind === 'StatefulSet')
    expect(kept.length).toBeGreaterThan(1)
    for (const object of kept) {
      expect(object.metadata.annotations, titleOf(object)).toMatchObject({
        'argocd.argoproj.io/sync-options': 'Prune=false,Delete=false',
        'kustomize.toolkit.fluxcd.io/prune': 'disabled',
      })
    }
  })

  it('a NATS server with a new disk may copy the largest one at 5 MB/s before its start counts as failed', () => {
    const nats = workload(objects, 'nats')
    const { startupProbe } = nats.pod.containers[0]
    const seconds = (startupProbe?.periodSeconds ?? 0) * (startupProbe?.failureThreshold ?? 0)
    expect(seconds).toBeGreaterThanOrEqual(volumeBytesOf(nats) / 5e6)
    // It has caught up: the next one of a rollout waits for it.
    expect(startupProbe?.httpGet?.path).toBe('/healthz')
  })

  it('the toolbox is there for people, runs only when it is asked for, and reaches NATS alone', () => {
    const toolbox = workload(objects, 'toolbox')
    expect(toolbox.replicas).toBe(0)
    expect(toolbox.pod.containers.map(({ name, command }) => [name, command])).toEqual([
      ['nats', ['sleep', 'infinity']],
      ['sluice', ['sleep', 'infinity']],
    ])
    for (const each of toolbox.pod.containers) {
      const own = environmentOf(objects, each, exampleSecret)
      expect(readConfig(own).nats?.url).toMatch(/^nats:/)
      const user = new URL(own['NATS_URL'].split(',')[0]).username
      expect(user).not.toBe('sluice')
    }
    const [policy, ...more] = policies.filter((each) => selects(podSelectorOf(each), toolbox.labels))
    expect(more).toEqual([])
    expect(policy.spec?.ingress).toBeUndefined()
    expect(policy.spec?.egress?.flatMap(({ ports }) => ports?.map(({ port }) => port))).toEqual([53, 53, 4222])
  })

  const stores = workloads
    .filter(({ name }) => name === 'redis' || name === 'nats')
    .map((store) => [store.name, store] as const)
  it.each(stores)('the configuration of %s is that of its pod', (_name, store) => {
    const config = settings()
    const [{ args = [], volumeMounts = [], resources, lifecycle }] = store.pod.containers
    const text = configurationOf(objects, `${store.name}-config`, `${store.name}.conf`)
    const value = (name: string): string => new RegExp(`^ *${name}:? "?([^"\\s]+)"?$`, 'm').exec(text)?.[1] ?? ''
    const memoryBytes = quantity(resources?.limits?.['memory'])
    const writable = volumeMounts.filter(({ readOnly }) => !readOnly).map(({ mountPath }) => mountPath)
    const ports = [...text.matchAll(/^ *(?:http_)?port:? (\d+)$/gm)].map(([, port]) => Number(port))
    expect(new Set(ports)).toEqual(new Set(portsOf(store.pod).map(({ containerPort }) => containerPort)))
    expect(args).toContain(`/etc/${store.name}/${store.name}.conf`)
    expect(writable).toContain(value(store.name === 'redis' ? 'dir' : 'store_dir'))
    if (store.name === 'redis') {
      // While the log is written anew, what changes is there twice.
      expect(sizeOf(value('maxmemory')) * 2).toBeLessThanOrEqual(memoryBytes)
      expect([value('maxmemory-policy'), value('appendonly')]).toEqual(['noeviction', 'yes'])
      return
    }
    expect(sizeOf(value('max_file_store'))).toBeLessThan(volumeBytesOf(store))
    expect(config.stream.maxBytes).toBeLessThan(sizeOf(value('max_file_store')))
    expect(sizeOf(value('max_payload') || '1MB')).toBeGreaterThanOrEqual(MAX_RECORD_BYTES)
    const variables = environmentOf(objects, store.pod.containers[0], () => 'example')
    const goBytes = quantity((variables['GOMEMLIMIT'] ?? '0B').slice(0, -1))
    expect(sizeOf(value('max_memory_store')) + goBytes).toBeLessThan(memoryBytes)
    for (const [, name] of text.matchAll(/: \$(\w+)/g)) {
      // A block of the same file, a file of the Secret, or of the environment.
      const [, user = ''] = /^NATS_(\w+)_PASSWORD$/.exec(name) ?? []
      if (text.includes(`\ninclude "./${user.toLowerCase()}.conf"\n`) || text.includes(`\n${name} {`)) continue
      expect(variables).toHaveProperty(name)
    }
    const leaving = lifecycle?.preStop?.exec?.command?.at(-1)
    if (leaving !== undefined) {
      expect(leaving).toBe(`ldm=${value('pid_file')}`)
      expect(writable.some((path) => value('pid_file').startsWith(path))).toBe(true)
      const lameDuckSeconds = Number.parseInt(value('lame_duck_duration'), 10)
      expect(store.pod.terminationGracePeriodSeconds).toBeGreaterThan(lameDuckSeconds)
    }
  })
})

/** What docs/kubernetes.md has an operator put into the Secrets. */
function exampleSecret(secret: string, key: string): string {
  if (key === 'REDIS_URL') return 'rediss://sluice:example@redis.example.com:6379'
  if (key !== 'NATS_URL') return 'example-of-a-password-or-token'
  const user = secret === 'toolbox-connections' ? 'operator' : 'sluice'
  return [0, 1, 2].map((at) => `nats://${user}:example@nats-${at}.nats:4222`).join(',')
}

/** The keys of a `kubectl create secret generic NAME` on the page. */
function secretsToMake(name: string | undefined): string[] {
  const commands = PAGE.replaceAll('\\\n', ' ').split('\n')
  const command = commands.find((line) => line.includes(`create secret generic ${name} `)) ?? ''
  return [...command.matchAll(/--from-literal=([\w.]+)=/g)].map(([, key]) => key)
}

/** A policy may give a port by its number or by the name that it has in the pod. */
function portNumber(pod: Workload['pod'], port: number | string | undefined): number | undefined {
  return portsOf(pod).find(({ name, containerPort }) => name === port || containerPort === port)?.containerPort
}

function volumeBytesOf({ object }: Workload): number {
  const { volumeClaimTemplates } = object['spec'] as {
    volumeClaimTemplates: { spec: { resources: { requests: { storage: string } } } }[]
  }
  return quantity(volumeClaimTemplates[0].spec.resources.requests.storage)
}

/** `90GB`, `128mb`: both servers count in powers of two. */
function sizeOf(text: string): number {
  const match = /^(\d+)([kmg])b$/i.exec(text)
  return match === null ? Number.NaN : Number(match[1]) * 1024 ** ('kmg'.indexOf(match[2].toLowerCase()) + 1)
}
