// What holds between the objects of any overlay: each is in the namespace of sluice, and whatever names another object, a port, a
// volume or a pod finds it. A list of sentences, empty where all is well.

import { hasPort, podSelectorOf, probesOf, selects, titleOf, type Workload, workloadsOf } from './kubernetes-view.ts'
import type { KubernetesObject } from './kustomize.ts'

const OF_THE_CLUSTER = new Set(['Namespace', 'PriorityClass'])

/** What an object refers to and nobody has. */
export function mistakesIn(objects: readonly KubernetesObject[]): string[] {
  const pods = workloadsOf(objects)
  const mistakes: string[] = []
  const hold = (isSo: boolean, object: KubernetesObject, what: string): void => {
    if (!isSo) mistakes.push(`${titleOf(object)}: ${what}`)
  }
  const find = (kind: string, name: string): any =>
    objects.find((object) => object.kind === kind && object.metadata.name === name)
  const selected = (object: KubernetesObject): Workload[] =>
    pods.filter(({ labels }) => selects(podSelectorOf(object), labels))
  for (const object of objects) {
    const { kind, metadata } = object
    const spec = (object['spec'] ?? {}) as any
    if (!OF_THE_CLUSTER.has(kind)) hold(metadata.namespace === 'sluice', object, `namespace ${metadata.namespace}`)
    if (/^(Service|NetworkPolicy|PodDisruptionBudget)$/.test(kind))
      hold(selected(object).length > 0, object, 'selects no pod')
    if (kind === 'Service') {
      for (const { targetPort, port } of spec.ports) {
        for (const { title, pod } of selected(object))
          hold(hasPort(pod, targetPort ?? port), object, `${title} has no port ${targetPort ?? port}`)
      }
    }
    if (kind === 'NetworkPolicy') {
      const ports = (spec.ingress ?? []).flatMap((rule: any) => rule.ports ?? [])
      for (const { port } of ports)
        hold(
          selected(object).some(({ pod }) => hasPort(pod, port)),
          object,
          `no pod has the port ${port}`,
        )
    }
    if (kind === 'HorizontalPodAutoscaler') {
      const { kind: target, name } = spec.scaleTargetRef
      hold(find(target, name) !== undefined, object, `no ${target} ${name}`)
    }
    if (kind === 'Ingress') {
      for (const { service } of spec.rules.flatMap(({ http }: any) => http.paths).map(({ backend }: any) => backend)) {
        const names = find('Service', service.name)?.spec.ports.map(({ name }: any) => name)
        hold(names?.includes(service.port.name), object, `no port ${service.port.name} of Service ${service.name}`)
      }
    }
    if (kind === 'HTTPRoute') {
      for (const { name, port } of spec.rules.flatMap(({ backendRefs }: any) => backendRefs)) {
        const ports = find('Service', name)?.spec.ports.map((each: any) => each.port)
        hold(ports?.includes(port), object, `no port ${port} of Service ${name}`)
      }
    }
    if (kind === 'BackendTrafficPolicy') {
      for (const target of spec.targetRefs)
        hold(find(target.kind, target.name) !== undefined, object, `no ${target.kind} ${target.name}`)
    }
    const transport = metadata.annotations?.['traefik.ingress.kubernetes.io/service.serverstransport']
    if (transport !== undefined) {
      const found = objects.filter((each) => each.kind === 'ServersTransport')
      const names = found.map((each) => `${each.metadata.namespace}-${each.metadata.name}@kubernetescrd`)
      hold(names.includes(transport), object, `no ServersTransport ${transport}`)
    }
  }
  const has = (kind: string, name: string | undefined): boolean => name === undefined || find(kind, name) !== undefined
  for (const { object, pod, labels, selector, replicas, claims } of pods) {
    const apart = pod.affinity?.podAntiAffinity?.requiredDuringSchedulingIgnoredDuringExecution ?? []
    for (const { labelSelector } of [...(pod.topologySpreadConstraints ?? []), ...apart])
      hold(selects(labelSelector, labels), object, 'is spread among other pods')
    hold(selects(selector, labels), object, 'does not select its own pods')
    const probes = pod.containers.flatMap(probesOf)
    hold(replicas === 0 || probes.length > 1, object, 'has no probes')
    for (const { httpGet, tcpSocket } of probes) {
      const port = (httpGet ?? tcpSocket)?.port
      if (port !== undefined) hold(hasPort(pod, port), object, `a probe asks for the port ${port}`)
    }
    const { serviceName } = object['spec'] as { serviceName?: string }
    hold(has('Service', serviceName), object, `no Service ${serviceName}`)
    hold(has('ServiceAccount', pod.serviceAccountName), object, `no ServiceAccount ${pod.serviceAccountName}`)
    const volumes = pod.volumes ?? []
    const sources = volumes.flatMap(({ projected }) => projected?.sources ?? [])
    const maps = [
      ...pod.containers.flatMap(({ envFrom = [] }) => envFrom.map(({ configMapRef }) => configMapRef)),
      ...[...volumes, ...sources].map(({ configMap }) => configMap),
    ]
    for (const map of maps) hold(has('ConfigMap', map?.name), object, `no ConfigMap ${map?.name}`)
    const names = new Set([...volumes.map(({ name }) => name), ...claims])
    for (const { name } of pod.containers.flatMap(({ volumeMounts = [] }) => volumeMounts))
      hold(names.has(name), object, `no volume ${name}`)
  }
  return mistakes
}
