// What must hold between the objects of any deployment, beyond what the API's schemas can say. Each rule returns its
// mistakes as sentences; an overlay is sound when none has any.

import { readFileSync } from 'node:fs'
import { resolve } from 'node:path'
import { packageVersion } from '../../src/lib/version.ts'
import {
  hasPort,
  objectsOf,
  podSelectorOf,
  policiesOf,
  portsOf,
  probesOf,
  selects,
  servicesOf,
  titleOf,
  workloadsOf,
} from './kubernetes-view.ts'
import type { KubernetesObject } from './kustomize.ts'
import { RESTRICTED } from './pod-security.ts'

type Objects = readonly KubernetesObject[]
export type Rule = (objects: Objects) => string[]

/** Secrets are made by the operator, as this page says; no other may be referred to. */
const PAGE = readFileSync(resolve(import.meta.dirname, '../../docs/kubernetes.md'), 'utf8')
const USER_AND_PASSWORD = /:\/\/[^/\s:@]*:(?!\$\()[^/\s@]+@/

export const RELATIONS: Readonly<Record<string, Rule>> = {
  'selectors find the pods that they are meant for': selectorMistakes,
  'ports that are named are there': portMistakes,
  'what is referred to is there, or the operator is told to make it': referenceMistakes,
  'traffic is let through on both sides, and the admin port is not open to all': trafficMistakes,
  'images have a version, and sluice its own': imageMistakes,
  'every pod meets the restricted standard, and the namespace enforces it': securityMistakes,
  'no pod is told of Services, or given a token': ambientMistakes,
  'everything is in one namespace': namespaceMistakes,
  'no password stands here': passwordMistakes,
  'no list is empty, which the API server would forget': emptyMistakes,
}

function selectorMistakes(objects: Objects): string[] {
  const workloads = workloadsOf(objects)
  const lost = objects
    .filter(({ kind }) => ['Service', 'NetworkPolicy', 'PodDisruptionBudget'].includes(kind))
    .filter((object) => !workloads.some(({ labels }) => selects(podSelectorOf(object), labels)))
    .map((object) => `${titleOf(object)}: its selector finds no pod`)
  const strayed = workloads.flatMap(({ title, selector, labels, pod }) => {
    const terms = pod.affinity?.podAntiAffinity?.requiredDuringSchedulingIgnoredDuringExecution ?? []
    const selectors = [...(pod.topologySpreadConstraints ?? []), ...terms].map(({ labelSelector }) => labelSelector)
    return [selector, ...selectors.map((each) => each?.matchLabels)]
      .filter((each) => !selects(each, labels))
      .map(() => `${title}: a selector of its own does not find its pods`)
  })
  return [...lost, ...strayed]
}

function portMistakes(objects: Objects): string[] {
  const workloads = workloadsOf(objects)
  const ofServices = servicesOf(objects).flatMap((service) =>
    (service.spec?.ports ?? []).flatMap(({ targetPort, port }) =>
      workloads
        .filter(({ labels }) => selects(service.spec?.selector, labels))
        .filter(({ pod }) => !hasPort(pod, targetPort ?? port))
        .map(({ title }) => `${titleOf(service)}: ${title} has no port ${targetPort ?? port}`),
    ),
  )
  const ofProbes = workloads.flatMap(({ title, pod }) =>
    pod.containers.flatMap((container) =>
      probesOf(container)
        .flatMap(({ httpGet, tcpSocket }) => [httpGet?.port, tcpSocket?.port])
        .filter((port) => port !== undefined && !hasPort(pod, port))
        .map((port) => `${title}: a probe asks for port ${port}, which it does not have`),
    ),
  )
  const ofPolicies = policiesOf(objects).flatMap((policy) => {
    const own = (policy.spec?.ingress ?? []).map(({ ports }) => ({ ports, labels: podSelectorOf(policy) }))
    const others = (policy.spec?.egress ?? []).flatMap(({ ports, to }) =>
      (to ?? []).map(({ podSelector }) => ({ ports, labels: podSelector?.matchLabels })),
    )
    return [...own, ...others].flatMap(({ ports, labels }) => {
      const met = workloads.filter((workload) => selects(labels, workload.labels))
      const asked = (ports ?? []).map(({ port }) => port)
      const missing = asked.filter((port) => !met.some(({ pod }) => hasPort(pod, port)))
      return missing.map((port) => `${titleOf(policy)}: no pod that it speaks of has port ${port}`)
    })
  })
  return [...ofServices, ...ofProbes, ...ofPolicies]
}

function referenceMistakes(objects: Objects): string[] {
  const has = (kind: string, name: string | undefined): boolean =>
    objectsOf(objects, kind).some(({ metadata }) => metadata.name === name)
  return workloadsOf(objects).flatMap(({ object, title, pod, claims }) => {
    const missing: string[] = []
    const want = (isThere: boolean, what: string): void => {
      if (!isThere) missing.push(`${title}: there is no ${what}`)
    }
    const account = pod.serviceAccountName
    if (account !== undefined) want(has('ServiceAccount', account), `ServiceAccount ${account}`)
    const { serviceName } = object['spec'] as { serviceName?: string }
    if (serviceName !== undefined) want(has('Service', serviceName), `Service ${serviceName}`)
    const volumes = new Set([...(pod.volumes ?? []).map(({ name }) => name), ...claims])
    for (const { configMap } of pod.volumes ?? []) {
      if (configMap) want(has('ConfigMap', configMap.name), `ConfigMap ${configMap.name}`)
    }
    for (const { env, envFrom, volumeMounts } of pod.containers) {
      for (const { name } of volumeMounts ?? []) want(volumes.has(name), `volume ${name}`)
      for (const { configMapRef } of envFrom ?? []) {
        want(has('ConfigMap', configMapRef?.name), `ConfigMap ${configMapRef?.name}`)
      }
      for (const { secretKeyRef } of (env ?? []).map(({ valueFrom }) => valueFrom ?? {})) {
        if (secretKeyRef === undefined) continue
        const { name, key } = secretKeyRef
        want(isToldToMake(name, key), `word in docs/kubernetes.md of Secret ${name} with ${key}`)
      }
    }
    return missing
  })
}

/** By a `kubectl create secret generic NAME` on the page, with `--from-literal=KEY=` in the same command. */
function isToldToMake(name: string | undefined, key: string): boolean {
  const command = PAGE.replaceAll('\\\n', ' ')
    .split('\n')
    .find((line) => line.includes(`create secret generic ${name} `))
  return command !== undefined && new RegExp(`--from-literal=["']?${key}=`).test(command)
}

function trafficMistakes(objects: Objects): string[] {
  const policies = policiesOf(objects)
  const workloads = workloadsOf(objects)
  const unguarded = workloads.flatMap(({ title, labels }) => {
    const types = policies
      .filter((policy) => selects(podSelectorOf(policy), labels))
      .flatMap(({ spec }) => spec?.policyTypes ?? [])
    const open = ['Ingress', 'Egress'].filter((type) => !(types as string[]).includes(type))
    return open.map((type) => `${title}: no policy guards its ${type}`)
  })
  const opened = policies.flatMap((policy) =>
    (policy.spec?.ingress ?? [])
      .filter(({ from, ports }) => !from?.length && !ports?.every(({ port }) => port === 'events'))
      .map(() => `${titleOf(policy)}: lets everybody in on more than the port for events`),
  )
  const refused = policies.flatMap((policy) =>
    (policy.spec?.egress ?? []).flatMap(({ to, ports }) =>
      (to ?? []).flatMap(({ podSelector }) =>
        workloads
          .filter(({ labels }) => selects(podSelector?.matchLabels, labels))
          .filter(({ labels, pod }) => !lets(policies, podSelectorOf(policy), labels, portNames(pod, ports)))
          .map(({ title }) => `${titleOf(policy)}: ${title} does not let these pods in`),
      ),
    ),
  )
  return [...unguarded, ...opened, ...refused]
}

type Pod = Parameters<typeof portsOf>[0]

/** A policy may give a port by its number or by the name that it has in the pod. */
function portNames(
  pod: Pod,
  ports: readonly { port?: number | string }[] | undefined,
): (number | string | undefined)[] {
  const asked = new Set((ports ?? []).map(({ port }) => port))
  return portsOf(pod).flatMap(({ name, containerPort }) =>
    asked.has(containerPort) || (name !== undefined && asked.has(name)) ? [name, containerPort] : [],
  )
}

function lets(
  policies: ReturnType<typeof policiesOf>,
  from: Readonly<Record<string, string>> | undefined,
  to: Readonly<Record<string, string>>,
  ports: readonly (number | string | undefined)[],
): boolean {
  return policies
    .filter((policy) => selects(podSelectorOf(policy), to))
    .flatMap(({ spec }) => spec?.ingress ?? [])
    .some(
      (rule) =>
        (rule.ports ?? []).some(({ port }) => ports.includes(port)) &&
        (rule.from ?? []).some((peer) => selects(peer.podSelector?.matchLabels, from ?? {})),
    )
}

function imageMistakes(objects: Objects): string[] {
  return workloadsOf(objects).flatMap(({ title, pod }) =>
    pod.containers.flatMap(({ name, image = '' }) => {
      const tag = /:([^:/]+)$/.exec(image)?.[1]
      if (tag === undefined || !/\d+\.\d+\.\d+/.test(tag)) return [`${title}: ${image} has no full version`]
      const isWrong = name === 'sluice' && tag !== packageVersion()
      return isWrong ? [`${title}: ${image} is not the package's ${packageVersion()}`] : []
    }),
  )
}

function securityMistakes(objects: Objects): string[] {
  const enforced = objectsOf(objects, 'Namespace')
    .filter(({ metadata }) => metadata.labels?.['pod-security.kubernetes.io/enforce'] !== 'restricted')
    .map((object) => `${titleOf(object)}: does not enforce the restricted standard`)
  const pods = workloadsOf(objects).flatMap(({ title, pod }) =>
    Object.entries(RESTRICTED)
      .filter(([, keeps]) => !keeps(pod))
      .map(([rule]) => `${title}: ${rule}`),
  )
  // Beyond the standard, and what the image is made for.
  const writable = workloadsOf(objects).flatMap(({ title, pod }) =>
    pod.containers
      .filter(({ securityContext }) => securityContext?.readOnlyRootFilesystem !== true)
      .map(({ name }) => `${title}: the root file system of ${name} can be written`),
  )
  return [...enforced, ...pods, ...writable]
}

function ambientMistakes(objects: Objects): string[] {
  const linked = workloadsOf(objects)
    .filter(({ pod }) => pod.enableServiceLinks !== false)
    .map(({ title }) => `${title}: Kubernetes adds variables named after Services`)
  const trusted = workloadsOf(objects)
    .filter(({ pod }) => pod.automountServiceAccountToken !== false)
    .map(({ title }) => `${title}: has a token for the Kubernetes API`)
  return [...linked, ...trusted]
}

function namespaceMistakes(objects: Objects): string[] {
  const [namespace, ...others] = objectsOf(objects, 'Namespace').map(({ metadata }) => metadata.name)
  if (namespace === undefined || others.length > 0) return ['there must be one Namespace']
  return objects
    .filter(({ kind, metadata }) => kind !== 'Namespace' && metadata.namespace !== namespace)
    .map((object) => `${titleOf(object)}: is not in ${namespace}`)
}

function passwordMistakes(objects: Objects): string[] {
  return objects
    .filter((object) => object.kind === 'Secret' || USER_AND_PASSWORD.test(JSON.stringify(object)))
    .map((object) => `${titleOf(object)}: holds a password`)
}

/** What is written and what the server keeps would differ, so that every apply writes the object again. */
function emptyMistakes(objects: Objects): string[] {
  return objects.flatMap((object) => emptyLists(object).map((path) => `${titleOf(object)}: ${path} is empty`))
}

function emptyLists(value: unknown, path = ''): string[] {
  if (typeof value !== 'object' || value === null) return []
  if (Array.isArray(value) && value.length === 0) return [path]
  return Object.entries(value).flatMap(([key, member]) => emptyLists(member, `${path}/${key}`))
}
