// The components in front of the nodes: each closes its connections before a node does, leads to Services that are there, and
// keeps what asks for no token from the web.

import { beforeAll, describe, expect, it } from 'vitest'
import { VIEWS } from '../../src/console/pages.ts'
import { mistakesIn } from '../support/kubernetes-mistakes.ts'
import { objectsOf, servicesOf } from '../support/kubernetes-view.ts'
import { buildKustomization, type KubernetesObject, overlayWith, schemaMistakes } from '../support/kustomize.ts'

/** After so long without a request a node may close a connection. */
const NODE_IDLE_SECONDS = 8

interface Path {
  readonly path: string
  readonly pathType: string
  readonly backend: { readonly service: { readonly name: string; readonly port: { readonly name: string } } }
}

async function withComponents(...names: string[]): Promise<KubernetesObject[]> {
  return buildKustomization(await overlayWith('production', names))
}

function only(objects: readonly KubernetesObject[], kind: string): any {
  const found = objectsOf(objects, kind)
  expect(found, kind).toHaveLength(1)
  return found[0]
}

describe('the Ingress', () => {
  let objects: readonly KubernetesObject[]
  beforeAll(async () => {
    objects = await withComponents('ingress')
  })

  it('is what the API takes, and leads to what is there', async () => {
    const known = objects.filter(({ apiVersion }) => apiVersion !== 'traefik.io/v1alpha1')
    expect((await Promise.all(known.map(schemaMistakes))).flat()).toEqual([])
    expect(mistakesIn(objects)).toEqual([])
  })

  it('closes its connections to the pods before they do', () => {
    const { metadata, spec } = only(objects, 'ServersTransport')
    expect(Number.parseInt(spec.forwardingTimeouts.idleConnTimeout, 10)).toBeLessThan(NODE_IDLE_SECONDS)
    const reference = `${metadata.namespace}-${metadata.name}@kubernetescrd`
    for (const name of ['sluice', 'sluice-admin']) {
      const service = servicesOf(objects).find((each) => each.metadata.name === name)
      expect(service?.metadata.annotations).toEqual({
        'traefik.ingress.kubernetes.io/service.serverstransport': reference,
      })
    }
  })

  it('shows the console under the name that it answers to, and neither metrics nor probes', () => {
    const console = objectsOf<any>(objects, 'Ingress').find(({ metadata }) => metadata.name === 'sluice-console')
    const map = objectsOf(objects, 'ConfigMap').find(({ metadata }) => metadata.name.startsWith('sluice-settings-'))
    const settings = map?.['data'] as Record<string, string>
    expect(settings['SLUICE_CONSOLE_ORIGIN']).toBe(`https://${console.spec.rules[0].host}`)
    expect(settings['SLUICE_STREAM_REPLICAS'], 'what the overlay set').toBe('3')
    const ofConsole = (console.spec.rules[0].http.paths as Path[]).map(({ path, pathType }) => [path, pathType])
    const exact = ofConsole.filter(([, type]) => type === 'Exact').map(([path]) => path)
    expect(exact.toSorted()).toEqual(VIEWS.toSorted())
    expect(ofConsole.filter(([, type]) => type === 'Prefix').map(([path]) => path)).toEqual(['/assets', '/api'])
  })
})

/** The name under which the portal is shown, and where that leads to. */
const EDGES = {
  portal: (objects: readonly KubernetesObject[]) => {
    const [{ host, http }] = only(objects, 'Ingress').spec.rules
    return { host, paths: http.paths.map(({ path, pathType }: Path) => [pathType, path]), backends: ingressPorts(http) }
  },
  'portal-gateway': (objects: readonly KubernetesObject[]) => {
    const { hostnames, rules } = only(objects, 'HTTPRoute').spec
    expect(objectsOf(objects, 'Ingress'), 'one edge').toEqual([])
    const [{ matches, backendRefs }] = rules
    return {
      host: hostnames[0],
      paths: matches.map(({ path: { type, value } }: any) => [type === 'PathPrefix' ? 'Prefix' : type, value]),
      backends: backendRefs.map(({ name, port }: any) => [name, port]),
    }
  },
}

function ingressPorts({ paths }: { paths: readonly Path[] }): (readonly [string, number])[] {
  const numbers: Readonly<Record<string, number>> = { portal: 9191 }
  return paths.map(({ backend: { service } }) => [service.name, numbers[service.port.name]])
}

describe.each(['portal', 'portal-gateway'] as const)('the component %s', (name) => {
  let objects: readonly KubernetesObject[]
  beforeAll(async () => {
    objects = await withComponents(name)
  })

  it('is what the API takes, and answers to the name under which it is shown', async () => {
    const known = objects.filter(({ apiVersion }) => !/^(gateway|traefik)\./.test(apiVersion))
    expect((await Promise.all(known.map(schemaMistakes))).flat()).toEqual([])
    const map = objectsOf(objects, 'ConfigMap').find(({ metadata }) => metadata.name.startsWith('sluice-settings-'))
    const settings = map?.['data'] as Record<string, string>
    expect(settings['SLUICE_PORTAL_ORIGIN']).toBe(`https://${EDGES[name](objects).host}`)
    expect(settings['SLUICE_STREAM_REPLICAS'], 'what the overlay set').toBe('3')
  })

  it('shows one port of the pods: the one on which the portal listens', () => {
    const { paths, backends } = EDGES[name](objects)
    expect([paths, backends]).toEqual([[['Prefix', '/']], [['sluice-portal', 9191]]])
    const service = servicesOf(objects).find(({ metadata }) => metadata.name === 'sluice-portal')
    expect(service?.spec?.ports).toEqual([{ name: 'portal', port: 9191, targetPort: 'portal' }])
    const deployment = objectsOf<any>(objects, 'Deployment').find(({ metadata }) => metadata.name === 'sluice')
    expect(mistakesIn(objects)).toEqual([])
    const { ports } = deployment.spec.template.spec.containers[0]
    expect(ports.filter(({ containerPort }: any) => containerPort === 9191)).toEqual([
      { name: 'portal', containerPort: 9191 },
    ])
    const policy = objectsOf<any>(objects, 'NetworkPolicy').find(({ metadata }) => metadata.name === 'sluice-portal')
    expect(policy.spec.ingress.flatMap(({ ports: open }: any) => open)).toEqual([{ port: 'portal', protocol: 'TCP' }])
  })

  it('has what closes connections of its own edge alone, before the portal does', () => {
    const transports = objectsOf<any>(objects, 'ServersTransport')
    const service = servicesOf(objects).find(({ metadata }) => metadata.name === 'sluice-portal')
    const named = Object.values(service?.metadata.annotations ?? {})
    if (name === 'portal-gateway') return expect([transports, named]).toEqual([[], []])
    expect(named).toEqual(transports.map(({ metadata }) => `${metadata.namespace}-${metadata.name}@kubernetescrd`))
    const idleSeconds = transports.map(({ spec }) => Number.parseInt(spec.forwardingTimeouts.idleConnTimeout, 10))
    expect(idleSeconds).toEqual([expect.any(Number)])
    expect(idleSeconds[0]).toBeLessThan(NODE_IDLE_SECONDS)
  })
})

describe('events and the portal through one Gateway', () => {
  let objects: readonly KubernetesObject[]
  beforeAll(async () => {
    objects = await withComponents('gateway', 'portal-gateway')
  })

  it('have a name each', () => {
    const routes = objectsOf<any>(objects, 'HTTPRoute').map(({ spec: { hostnames, rules } }) => [
      hostnames[0],
      rules[0].backendRefs[0].name,
    ])
    expect(routes).toEqual([
      ['events.example.com', 'sluice'],
      ['usage.example.com', 'sluice-portal'],
    ])
  })

  it('the portal’s ends no stream, and closes its connections to the pods before they do', () => {
    const of = (kind: string) =>
      objectsOf<any>(objects, kind).find(({ metadata }) => metadata.name === 'sluice-portal').spec
    expect(of('HTTPRoute').rules.map(({ timeouts }: any) => timeouts)).toEqual([{ request: '0s' }])
    const { targetRefs, timeout } = of('BackendTrafficPolicy')
    expect(targetRefs).toEqual([{ group: 'gateway.networking.k8s.io', kind: 'HTTPRoute', name: 'sluice-portal' }])
    expect(Number.parseInt(timeout.http.connectionIdleTimeout, 10)).toBeLessThan(NODE_IDLE_SECONDS)
  })
})

describe('the Gateway route', () => {
  it('closes its connections to the pods before they do, and sends nothing twice that one may have taken', async () => {
    const objects = await withComponents('gateway')
    const { metadata, spec } = only(objects, 'HTTPRoute')
    const [{ matches }] = spec.rules
    expect(mistakesIn(objects)).toEqual([])
    expect(matches).toEqual([{ path: { type: 'Exact', value: '/api/v1/events' } }])
    const policy = only(objects, 'BackendTrafficPolicy').spec
    expect(policy.targetRefs).toEqual([{ group: 'gateway.networking.k8s.io', kind: 'HTTPRoute', name: metadata.name }])
    expect(Number.parseInt(policy.timeout.http.connectionIdleTimeout, 10)).toBeLessThan(NODE_IDLE_SECONDS)
    expect(policy.retry.retryOn.triggers).toEqual(['connect-failure'])
  })
})
