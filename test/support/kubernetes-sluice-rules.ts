// What must hold of sluice's own pods and those it stores in, by what its source says: settings, the drain, memory, and
// how many there always are.

import type { IHorizontalPodAutoscaler } from 'kubernetes-models/autoscaling/v2/HorizontalPodAutoscaler'
import type { IPodDisruptionBudget } from 'kubernetes-models/policy/v1/PodDisruptionBudget'
import { type Config, readConfig } from '../../src/settings/config.ts'
import { WATCHDOG_GRACE_MS } from '../../src/start/ending.ts'
import type { Rule } from './kubernetes-rules.ts'
import {
  environmentOf,
  objectsOf,
  podSelectorOf,
  quantity,
  selects,
  servicesOf,
  titleOf,
  type Workload,
  workloadsOf,
} from './kubernetes-view.ts'
import type { KubernetesObject } from './kustomize.ts'

type Objects = readonly KubernetesObject[]

/** Node with its code, heap, buffers and sockets: `npm run bench -- --only footprint` prints a node's memory under load. */
const PROCESS_BYTES = 160 * 2 ** 20
const KEY_BYTES = 30
/** Beside the ring: a quarter of it for bodies that gather, another for those that are inflated. */
const RING_SHARES = 1.5

export const SLUICE_RULES: Readonly<Record<string, Rule>> = {
  'the settings are known, sound, and those of the ports': settingMistakes,
  'the stores that the settings name are there, with room for as many copies': storeMistakes,
  'a pod is given longer to end than its drain takes': endingMistakes,
  'there is always a node, and the autoscaler alone counts them': availabilityMistakes,
  'memory is what the settings may use, and no quota stops the event loop': resourceMistakes,
}

export function sluiceOf(objects: Objects): Workload {
  const found = workloadsOf(objects).find(({ name }) => name === 'sluice')
  if (found === undefined) throw new Error('there is no workload called sluice')
  return found
}

/** The settings with which the pods start. Throws a ConfigError, as they would. */
export function sluiceConfig(objects: Objects): Config {
  return readConfig(environmentOf(objects, sluiceOf(objects).pod.containers[0], exampleSecret))
}

/** What docs/kubernetes.md has an operator put into the Secrets. */
function exampleSecret(_secret: string, key: string): string {
  if (key === 'REDIS_URL') return 'rediss://sluice:example@redis.example.com:6379'
  if (key !== 'NATS_URL') return 'example'
  return [0, 1, 2].map((at) => `nats://sluice:example@nats-${at}.nats:4222`).join(',')
}

function settingMistakes(objects: Objects): string[] {
  const { title, pod } = sluiceOf(objects)
  const [container] = pod.containers
  let config: Config
  try {
    config = sluiceConfig(objects)
  } catch (error) {
    return [`${title}: ${error instanceof Error ? error.message : String(error)}`]
  }
  const mistakes: string[] = []
  const wanted = { events: config.publicPort, admin: config.adminPort }
  for (const [name, port] of Object.entries(wanted)) {
    const found = container.ports?.find((each) => each.name === name)?.containerPort
    if (found !== port) mistakes.push(`${title}: port ${name} is ${found}, and the process listens on ${port}`)
  }
  for (const host of [config.publicHost, config.adminHost]) {
    if (host !== '0.0.0.0') mistakes.push(`${title}: listens on ${host}, where nobody reaches it`)
  }
  const env = environmentOf(objects, container, exampleSecret)
  if (env['SLUICE_PARSERS'] === undefined) mistakes.push(`${title}: would start a thread for each core of its machine`)
  if (config.embedded || config.redisUrl === null || config.natsUrl === null) {
    mistakes.push(`${title}: would write to its disk, and has none`)
  }
  return mistakes
}

function storeMistakes(objects: Objects): string[] {
  const { title } = sluiceOf(objects)
  const { redisUrl, natsUrl, stream } = sluiceConfig(objects)
  const nats = workloadsOf(objects).find(({ name }) => name === 'nats')
  const mistakes: string[] = []
  if ((nats?.replicas ?? 0) < stream.replicas) {
    mistakes.push(`${title}: asks for ${stream.replicas} replicas of the stream, and NATS has ${nats?.replicas}`)
  }
  for (const url of [redisUrl ?? '', ...(natsUrl ?? '').split(',')]) {
    const { hostname, port } = new URL(url)
    // Outside of the cluster: nothing here can tell.
    if (hostname.includes('example.com')) continue
    const [serviceOrPod, ofService] = hostname.split('.')
    const name = ofService ?? serviceOrPod
    const service = servicesOf(objects).find(({ metadata }) => metadata.name === name)
    const isThere = service?.spec?.ports?.some((each) => each.port === Number(port)) ?? false
    const pods = workloadsOf(objects).flatMap((each) => podNames(each))
    if (!isThere || (ofService !== undefined && !pods.includes(serviceOrPod))) {
      mistakes.push(`${title}: nothing here answers at ${hostname}:${port}`)
    }
  }
  return mistakes
}

function podNames({ name, replicas = 1 }: Workload): string[] {
  return Array.from({ length: replicas }, (_, at) => `${name}-${at}`)
}

function endingMistakes(objects: Objects): string[] {
  const { title, pod } = sluiceOf(objects)
  const { shutdownMs, drainDelayMs } = sluiceConfig(objects)
  const graceMs = (pod.terminationGracePeriodSeconds ?? 30) * 1000
  const mistakes: string[] = []
  // The delay is part of the drain, and the watchdog ends what outlives it.
  if (graceMs <= shutdownMs + 2 * WATCHDOG_GRACE_MS || graceMs <= shutdownMs + drainDelayMs) {
    mistakes.push(`${title}: is killed after ${graceMs} ms, in the middle of a drain of ${shutdownMs} ms`)
  }
  if (drainDelayMs === 0) mistakes.push(`${title}: refuses connections before anybody can know that it goes`)
  return mistakes
}

function availabilityMistakes(objects: Objects): string[] {
  const sluice = sluiceOf(objects)
  const autoscalers = objectsOf<IHorizontalPodAutoscaler & KubernetesObject>(objects, 'HorizontalPodAutoscaler')
  const mistakes = autoscalers.flatMap((autoscaler) => {
    const { spec } = autoscaler
    const { scaleTargetRef: target, minReplicas = 1, maxReplicas } = spec ?? { maxReplicas: 0 }
    const scaled = workloadsOf(objects).find(({ object, name }) => object.kind === target?.kind && name === target.name)
    if (scaled === undefined) return [`${titleOf(autoscaler)}: there is no ${target?.kind} ${target?.name}`]
    return [
      ...(scaled.replicas === undefined ? [] : [`${scaled.title}: every apply sets back what the autoscaler chose`]),
      ...(minReplicas >= 2 ? [] : [`${titleOf(autoscaler)}: may leave one node alone`]),
      ...(maxReplicas > minReplicas ? [] : [`${titleOf(autoscaler)}: can never add a node`]),
    ]
  })
  for (const workload of workloadsOf(objects)) {
    const isScaled = workload === sluice || workload.name === sluice.name
    const least = (isScaled ? autoscalers[0]?.spec?.minReplicas : undefined) ?? workload.replicas ?? 1
    mistakes.push(...budgetMistakes(objects, workload, least))
  }
  const { strategy } = sluice.object['spec'] as { strategy?: { rollingUpdate?: { maxUnavailable?: unknown } } }
  if (strategy?.rollingUpdate?.maxUnavailable !== 0) mistakes.push(`${sluice.title}: a rollout takes capacity away`)
  const spreads = sluice.pod.topologySpreadConstraints ?? []
  if (spreads.length === 0) mistakes.push(`${sluice.title}: all its pods may share a machine`)
  // A machine or zone that has no room counts as one with no pod.
  if (spreads.some(({ whenUnsatisfiable }) => whenUnsatisfiable !== 'ScheduleAnyway')) {
    mistakes.push(`${sluice.title}: its new pods wait while a machine is full`)
  }
  return mistakes
}

/** More than one pod: one may go at a time, never all and never none, which would hold up every upgrade of the cluster. */
function budgetMistakes(objects: Objects, { title, labels }: Workload, least: number): string[] {
  const budgets = objectsOf<IPodDisruptionBudget & KubernetesObject>(objects, 'PodDisruptionBudget')
  const budget = budgets.find((each) => selects(podSelectorOf(each), labels))
  if (least === 1) return budget === undefined ? [] : [`${titleOf(budget)}: is about one pod, ${title}`]
  if (budget === undefined) return [`${title}: no budget keeps its pods from going all at once`]
  const { maxUnavailable, minAvailable } = budget.spec ?? {}
  const mayGo = maxUnavailable ?? least - Number(minAvailable)
  return mayGo === 1 ? [] : [`${titleOf(budget)}: lets ${mayGo} of ${least} pods go at once`]
}

function resourceMistakes(objects: Objects): string[] {
  const { pod, title } = sluiceOf(objects)
  const mistakes = workloadsOf(objects).flatMap((workload) =>
    workload.pod.containers.flatMap(({ resources }) => {
      const { requests = {}, limits = {} } = resources ?? {}
      return [
        ...(requests['cpu'] && requests['memory'] ? [] : [`${workload.title}: requests nothing`]),
        ...(limits['memory'] ? [] : [`${workload.title}: may take all memory of its machine`]),
        ...(quantity(limits['memory']) < quantity(requests['memory'])
          ? [`${workload.title}: limit below request`]
          : []),
      ]
    }),
  )
  const { requests = {}, limits = {} } = pod.containers[0].resources ?? {}
  const { ringBytes, maxKeys } = sluiceConfig(objects)
  const wanted = ringBytes * RING_SHARES + maxKeys * KEY_BYTES + PROCESS_BYTES
  if (!(quantity(limits['memory']) >= wanted)) {
    mistakes.push(
      `${title}: its settings may use ${Math.ceil(wanted / 2 ** 20)} MiB, and its limit is ${limits['memory']}`,
    )
  }
  if (limits['cpu'] !== undefined) mistakes.push(`${title}: a quota stops its event loop for the rest of each period`)
  // The front end is one thread: against a larger request the autoscaler would see it idle when it is full.
  if (quantity(requests['cpu']) > 1) mistakes.push(`${title}: requests more than its front end can use`)
  return mistakes
}
