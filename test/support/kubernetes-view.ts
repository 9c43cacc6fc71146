// Built Kubernetes objects as the tests look at them: workloads with their pods, what a selector finds, and the
// environment that a container starts with.

import type { INetworkPolicy } from 'kubernetes-models/networking.k8s.io/v1/NetworkPolicy'
import type { IContainer } from 'kubernetes-models/v1/Container'
import type { IPodSpec } from 'kubernetes-models/v1/PodSpec'
import type { IService } from 'kubernetes-models/v1/Service'
import type { KubernetesObject } from './kustomize.ts'

type Labels = Readonly<Record<string, string>>

/** A Deployment, a StatefulSet, or a CronJob that jobs are made of by hand. */
export interface Workload {
  readonly object: KubernetesObject
  /** `Deployment sluice` */
  readonly title: string
  readonly name: string
  readonly replicas: number | undefined
  readonly selector: Selector
  readonly labels: Labels
  readonly pod: IPodSpec
  /** Names of volumes that each pod gets for itself. */
  readonly claims: readonly string[]
}

interface WorkloadSpec {
  replicas?: number
  selector: Selector
  template: { metadata?: { labels?: Labels }; spec: IPodSpec }
  volumeClaimTemplates?: { metadata: { name: string } }[]
}

export function workloadsOf(objects: readonly KubernetesObject[]): Workload[] {
  return objects
    .filter(({ kind }) => kind === 'Deployment' || kind === 'StatefulSet' || kind === 'CronJob')
    .map((object) => {
      const spec = object.kind === 'CronJob' ? specOfJobs(object) : (object['spec'] as WorkloadSpec)
      return {
        object,
        title: titleOf(object),
        name: object.metadata.name,
        replicas: spec.replicas,
        selector: spec.selector,
        labels: spec.template.metadata?.labels ?? {},
        pod: spec.template.spec,
        claims: (spec.volumeClaimTemplates ?? []).map(({ metadata }) => metadata.name),
      }
    })
}

/** No pod of it runs until somebody makes a job. */
function specOfJobs(object: KubernetesObject): WorkloadSpec {
  const { template } = (object['spec'] as { jobTemplate: { spec: Pick<WorkloadSpec, 'template'> } }).jobTemplate.spec
  return { replicas: 0, selector: { matchLabels: template.metadata?.labels }, template }
}

export function workload(objects: readonly KubernetesObject[], wanted: string): Workload {
  const found = workloadsOf(objects).find(({ name }) => name === wanted)
  if (found === undefined) throw new Error(`there is no ${wanted}`)
  return found
}

export function titleOf({ kind, metadata }: KubernetesObject): string {
  return `${kind} ${metadata.name}`
}

export function objectsOf<T = KubernetesObject>(objects: readonly KubernetesObject[], kind: string): T[] {
  return objects.filter((object) => object.kind === kind) as T[]
}

export function servicesOf(objects: readonly KubernetesObject[]): (IService & KubernetesObject)[] {
  return objectsOf(objects, 'Service')
}

export function policiesOf(objects: readonly KubernetesObject[]): (INetworkPolicy & KubernetesObject)[] {
  return objectsOf(objects, 'NetworkPolicy')
}

export interface Selector {
  readonly matchLabels?: Labels | undefined
  /** Those with the operator `In`, which alone are used here. */
  readonly matchExpressions?: readonly { readonly key: string; readonly operator: string; readonly values?: string[] }[]
}

/** The pods that a Service, a NetworkPolicy or a PodDisruptionBudget is about. */
export function podSelectorOf(object: KubernetesObject): Selector | undefined {
  if (object.kind === 'Service') {
    const matchLabels = (object['spec'] as { selector?: Labels }).selector
    return matchLabels && { matchLabels }
  }
  const { selector, podSelector } = object['spec'] as Record<string, Selector | undefined>
  return podSelector ?? selector
}

/** An empty selector finds every pod, one that is missing none. */
export function selects(selector: Selector | undefined, labels: Labels): boolean {
  if (selector === undefined) return false
  const { matchLabels = {}, matchExpressions = [] } = selector
  return (
    Object.entries(matchLabels).every(([key, value]) => labels[key] === value) &&
    matchExpressions.every(
      ({ key, operator, values = [] }) => operator === 'In' && values.some((value) => labels[key] === value),
    )
  )
}

export function portsOf(pod: IPodSpec): { name?: string; containerPort: number }[] {
  return pod.containers.flatMap(({ ports }) => ports ?? [])
}

/** Whether a port given by name or number is one of the pod's. */
export function hasPort(pod: IPodSpec, port: number | string | undefined): boolean {
  return portsOf(pod).some(({ name, containerPort }) => port === name || port === containerPort)
}

export function probesOf(container: IContainer): NonNullable<IContainer['livenessProbe']>[] {
  return [container.startupProbe, container.readinessProbe, container.livenessProbe].filter(
    (probe) => probe !== undefined,
  )
}

/** A file of a generated ConfigMap, whose name has a hash behind it. */
export function configurationOf(objects: readonly KubernetesObject[], map: string, file: string): string {
  const found = objectsOf(objects, 'ConfigMap').find(({ metadata }) => metadata.name.startsWith(`${map}-`))
  return (found?.['data'] as Record<string, string> | undefined)?.[file] ?? ''
}

/** Values of Secrets are the operator's; these stand for them. */
export type SecretValue = (secret: string, key: string) => string

/** What the container's process finds: of its ConfigMaps first, then its own, with `$(NAME)` filled in. */
export function environmentOf(
  objects: readonly KubernetesObject[],
  container: IContainer,
  secretValue: SecretValue,
): Record<string, string> {
  const env: Record<string, string> = {}
  for (const { configMapRef } of container.envFrom ?? []) {
    const map = objectsOf(objects, 'ConfigMap').find(({ metadata }) => metadata.name === configMapRef?.name)
    Object.assign(env, map?.['data'] ?? {})
  }
  for (const { name, value, valueFrom } of container.env ?? []) {
    const { secretKeyRef, fieldRef } = valueFrom ?? {}
    if (secretKeyRef) env[name] = secretValue(secretKeyRef.name ?? '', secretKeyRef.key)
    else env[name] = fieldRef ? fieldRef.fieldPath : expand(value ?? '', env)
  }
  return env
}

/** `$(NAME)` in arguments and values, as the kubelet fills it in. */
export function expand(text: string, env: Readonly<Record<string, string>>): string {
  return text.replaceAll(/\$\(([A-Za-z_]\w*)\)/g, (whole, name: string) => env[name] ?? whole)
}

const UNITS = { '': 1, k: 1e3, M: 1e6, G: 1e9, Ki: 2 ** 10, Mi: 2 ** 20, Gi: 2 ** 30, m: 1e-3 } as const

/** `512Mi`, `250m`, `1`. */
export function quantity(text: number | string | undefined): number {
  const match = /^([\d.]+)(Ki|Mi|Gi|k|M|G|m|)$/.exec(String(text))
  return match === null ? Number.NaN : Number(match[1]) * UNITS[match[2] as keyof typeof UNITS]
}
