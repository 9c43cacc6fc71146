// The component that gives each node a volume for its spool: what it makes of the overlays, and that a volume is never left with
// batches that nobody sends.

import { readFileSync } from 'node:fs'
import { join, resolve } from 'node:path'
import type { IHorizontalPodAutoscaler } from 'kubernetes-models/autoscaling/v2/HorizontalPodAutoscaler'
import type { IPodSpec } from 'kubernetes-models/v1/PodSpec'
import { beforeAll, describe, expect, it } from 'vitest'
import { readConfig } from '../../src/settings/config.ts'
import { mistakesIn } from '../support/kubernetes-mistakes.ts'
import {
  environmentOf,
  expand,
  objectsOf,
  podSelectorOf,
  policiesOf,
  quantity,
  type Selector,
  selects,
  servicesOf,
  titleOf,
  type Workload,
  workload,
} from '../support/kubernetes-view.ts'
import {
  buildKustomization,
  hasKubectl,
  type KubernetesObject,
  overlayWith,
  schemaMistakes,
} from '../support/kustomize.ts'
import { RESTRICTED } from '../support/pod-security.ts'
import { makeFolder, runCommand } from '../support/service.ts'

const DEPLOY = resolve(import.meta.dirname, '../../deploy')
const PAGE = readFileSync(resolve(import.meta.dirname, '../../docs/kubernetes.md'), 'utf8')
const MIB = 2 ** 20
/** A spool leaves so much of its disk free. */
const FLOOR_BYTES = 2 * 2 ** 30

interface Claims {
  readonly volumeClaimTemplates: readonly {
    readonly metadata: { readonly name: string }
    readonly spec: { readonly accessModes: readonly string[]; readonly resources: { requests: { storage: string } } }
  }[]
  readonly persistentVolumeClaimRetentionPolicy: object
  readonly podManagementPolicy: string
}
describe.each(['local', 'production'])('with the spool, the overlay %s', (name) => {
  let overlay: string
  let objects: readonly KubernetesObject[]
  let sluice: Workload
  let job: { readonly labels: Readonly<Record<string, string>>; readonly pod: IPodSpec; readonly isSuspended: boolean }
  const secret = (_: string, key: string): string =>
    key === 'REDIS_URL'
      ? 'rediss://redis.example.com:6379'
      : key === 'NATS_URL'
        ? 'nats://nats-0.nats:4222'
        : 'a-token-of-16-characters'
  beforeAll(async () => {
    overlay = await overlayWith(name, ['spool'])
    objects = await buildKustomization(overlay)
    sluice = workload(objects, 'sluice')
    const [cron] = objectsOf<any>(objects, 'CronJob')
    const { metadata, spec } = cron.spec.jobTemplate.spec.template
    job = { labels: metadata.labels, pod: spec, isSuspended: cron.spec.suspend }
  })
  const settings = (): Readonly<Record<string, string>> =>
    environmentOf(objects, sluice.pod.containers[0], name === 'local' ? () => '' : secret)

  it('is what the API takes, leads to what is there, and is built alike by kubectl where that is installed', async () => {
    expect((await Promise.all(objects.map(schemaMistakes))).flat()).toEqual([])
    expect(mistakesIn(objects)).toEqual([])
    if (hasKubectl) expect(await buildKustomization(overlay, 'kubectl')).toEqual(objects)
  })

  it('has nodes with a volume each, which no scaling, deletion or pruning takes with it', () => {
    expect(sluice.title).toBe('StatefulSet sluice')
    expect(objectsOf(objects, 'Deployment').map(({ metadata }) => metadata.name)).not.toContain('sluice')
    const spec = sluice.object['spec'] as Claims
    expect(spec.persistentVolumeClaimRetentionPolicy).toEqual({ whenDeleted: 'Retain', whenScaled: 'Retain' })
    expect(spec.podManagementPolicy, 'no node waits for another').toBe('Parallel')
    expect(sluice.object.metadata.annotations).toMatchObject({
      'argocd.argoproj.io/sync-options': 'Prune=false,Delete=false',
      'kustomize.toolkit.fluxcd.io/prune': 'disabled',
    })
    const [claim, ...more] = spec.volumeClaimTemplates
    expect(more).toEqual([])
    expect(claim.spec.accessModes, 'two machines could both send what it holds').toEqual(['ReadWriteOnce'])
    expect(JSON.stringify(sluice.object)).not.toContain('pod-template-hash')
  })

  it('has the spool in the volume, with room for it and for what stays free, and the rest of the settings as before', () => {
    const config = readConfig(settings())
    const [{ volumeMounts = [] }] = sluice.pod.containers
    const mount = volumeMounts.find((each) => each.name === sluice.claims[0])
    // A folder in it: the volume's own is root's, and the node wants its folder for itself alone.
    expect(config.spool?.directory).toMatch(new RegExp(`^${mount?.mountPath}/.`))
    expect(sluice.pod.securityContext).toMatchObject({ runAsUser: 1000, fsGroup: 1000 })
    const { volumeClaimTemplates } = sluice.object['spec'] as Claims
    const volumeBytes = quantity(volumeClaimTemplates[0].spec.resources.requests.storage)
    expect(volumeBytes).toBeGreaterThan(Number(settings()['SLUICE_SPOOL_MAX_MB']) * MIB + FLOOR_BYTES)
    expect(settings()['SLUICE_STREAM_MAX_GB'], 'what the overlay set').toBe(name === 'local' ? '1' : '80')
  })

  it('adds nodes by itself, and takes none away', () => {
    const scalers = objectsOf<IHorizontalPodAutoscaler & KubernetesObject>(objects, 'HorizontalPodAutoscaler')
    expect(scalers).toHaveLength(name === 'local' ? 0 : 1)
    for (const { spec } of scalers) {
      expect(spec?.scaleTargetRef).toMatchObject({ kind: 'StatefulSet', name: 'sluice' })
      expect(spec?.behavior?.scaleDown).toEqual({ selectPolicy: 'Disabled' })
      expect(spec?.behavior?.scaleUp?.selectPolicy).toBe('Max')
    }
  })

  it('has a job to make others of, which never runs by itself and sends one volume with the settings of the nodes', () => {
    const { pod, isSuspended } = job
    expect(isSuspended).toBe(true)
    const [container, ...others] = pod.containers
    expect(others).toEqual([])
    const env = environmentOf(objects, container, name === 'local' ? () => '' : secret)
    const config = readConfig(name === 'local' ? { ...env, REDIS_URL: 'redis://a', NATS_URL: 'nats://a' } : env)
    const args = (container.args ?? []).map((word) => expand(word, env))
    expect(args).toEqual(['spool', 'drain', config.spool?.directory])
    const [{ mountPath }] = container.volumeMounts ?? []
    expect(args[2]).toMatch(new RegExp(`^${mountPath}/`))
    expect(container.image).toBe(sluice.pod.containers[0].image)
    const claim = pod.volumes?.find((each) => each.name === container.volumeMounts?.[0].name)?.persistentVolumeClaim
    expect(claim?.claimName).toBe(`${sluice.claims[0]}-sluice-0`)
    expect(pod.securityContext).toEqual(sluice.pod.securityContext)
    // A Secret that is not there leaves what the settings say.
    for (const { name: variable, valueFrom } of container.env ?? [])
      expect(valueFrom?.secretKeyRef, variable).toMatchObject({ optional: true })
    if (name === 'local') expect(settings()).toMatchObject({ NATS_URL: 'nats://nats:4222' })
  })

  it.each(Object.entries(RESTRICTED))('has pods with %s', (_rule, isKept) => {
    expect([sluice.pod, job.pod].map((pod) => isKept(pod))).toEqual([true, true])
  })

  it('lets the job reach names, NATS and Redis, as a node does, and nobody reach the job', () => {
    const { labels } = job
    for (const service of servicesOf(objects))
      expect(selects(podSelectorOf(service), labels), titleOf(service)).toBe(false)
    const own = policiesOf(objects).filter(({ spec }) => selects(spec?.podSelector as Selector, labels))
    expect(own.flatMap(({ spec }) => spec?.ingress ?? [])).toEqual([])
    expect(own.flatMap(({ spec }) => spec?.policyTypes ?? [])).toEqual(expect.arrayContaining(['Ingress', 'Egress']))
    const ports = own.flatMap(({ spec }) => spec?.egress ?? []).flatMap((rule) => rule.ports?.map(({ port }) => port))
    expect(ports.map(String).sort()).toEqual(['4222', '53', '53', '6379'])
    // The stores let in both.
    for (const store of objects.filter(
      (each) => each.kind === 'NetworkPolicy' && /^(nats|redis)$/.test(each.metadata.name),
    )) {
      const from = (store['spec'] as any).ingress[0].from as { podSelector?: Selector }[]
      for (const pod of [labels, sluice.labels])
        expect(
          from.some(({ podSelector }) => podSelector !== undefined && selects(podSelector, pod)),
          store.metadata.name,
        ).toBe(true)
    }
    const toRedis = policiesOf(objects).find(({ metadata }) => metadata.name === 'sluice-to-redis')
    expect(selects(toRedis?.spec?.podSelector as Selector, sluice.labels)).toBe(true)
  })
})

describe('docs/kubernetes.md', () => {
  it('says what a volume costs, where one switches it on', () => {
    const component = readFileSync(join(DEPLOY, 'components/spool/kustomization.yaml'), 'utf8')
    for (const text of [component, PAGE.slice(PAGE.indexOf('## The spool'))])
      expect(text.replaceAll(/\n# ?/g, ' ').replaceAll('\n', ' ')).toMatch(
        /until NATS takes it, a batch .* is on one disk alone/i,
      )
  })

  it('has a job that says so where there is nothing of a spool in the volume', async () => {
    const empty = await makeFolder()
    const { code, output } = await runCommand(['spool', 'drain', empty], {})
    expect([code, output]).toEqual([1, expect.stringContaining('REDIS_URL and NATS_URL')])
  })
})
