// The composition without an engine: its services, ports, names and settings against each other, against the files that
// they mount, and against the service's own settings. The one command in it is really run.

import { spawnSync } from 'node:child_process'
import { cp, mkdir, readFile, stat, symlink } from 'node:fs/promises'
import { basename, dirname, join, resolve } from 'node:path'
import { beforeEach, describe, expect, it } from 'vitest'
import { parse } from 'yaml'
import { readConfig } from '../../src/settings/config.ts'
import { MAX_BODY_BYTES } from '../support/client.ts'
import { startNats } from '../support/nats.ts'
import { readRules } from '../support/rules.ts'
import { makeFolder, runCommand } from '../support/service.ts'
import { named, pairsOf, parseDockerfile } from './dockerfile.ts'

interface Service {
  readonly image: string
  readonly build?: string
  readonly environment?: Readonly<Record<string, string>>
  readonly command?: readonly string[]
  readonly entrypoint?: readonly string[]
  readonly ports?: readonly string[]
  readonly volumes?: readonly string[]
  readonly tmpfs?: readonly string[]
  readonly depends_on?: Readonly<Record<string, { condition: string }>>
  readonly healthcheck?: { readonly test?: readonly string[]; readonly disable?: boolean }
  readonly stop_grace_period?: string
  readonly read_only?: boolean
  readonly cap_drop?: readonly string[]
  readonly security_opt?: readonly string[]
  readonly restart?: string
  readonly user?: string
}

/** Any other member would be a slip, or wants a look here first. */
const MEMBERS = new Set(
  `image build environment command entrypoint ports volumes tmpfs depends_on healthcheck
   stop_grace_period read_only cap_drop security_opt restart user`.split(/\s+/),
)
/** With room for what HAProxy adds and keeps. */
const MAX_HEAD_BYTES = 32_768
/** A node may close a connection that has been idle for so long. */
const NODE_IDLE_MS = 8000
const ROOT = resolve(import.meta.dirname, '../..')
const DEPLOY = join(ROOT, 'deploy')
const COMPOSE = join(DEPLOY, 'compose.yaml')
const inDeploy = (path: string): Promise<string> => readFile(join(DEPLOY, path), 'utf8')

const composition = parse(await inDeploy('compose.yaml'), { merge: true }) as {
  readonly services: Readonly<Record<string, Service>>
  readonly volumes: Readonly<Record<string, null>>
}
const { services } = composition
const entries = Object.entries(services)
const names = Object.keys(services)
const nodes = names.filter((name) => /^sluice-\d$/.test(name))
const manifest = JSON.parse(await readFile(join(ROOT, 'package.json'), 'utf8')) as { version: string }
const image = parseDockerfile(await readFile(join(ROOT, 'Dockerfile'), 'utf8')).stages[1]
const ofImage = Object.assign({}, ...named(image, 'ENV').map(pairsOf)) as Record<string, string>
const configOf = (name: string): ReturnType<typeof readConfig> =>
  readConfig({ ...ofImage, ...services[name].environment })
/** Host path or volume, path in the container, and how. */
const mountsOf = ({ volumes = [] }: Service): string[][] => volumes.map((text) => text.split(':'))
const isLocal = (source: string): boolean => source.startsWith('./')

let folder: string
beforeEach(async () => {
  folder = await makeFolder()
})

function seconds(text: string | undefined): number {
  return Number(/^(\d+)s$/.exec(text ?? '')?.[1])
}

/** The folder that a service sees at a path, made of what is mounted there. */
async function mountedFolder(name: string, path: string): Promise<string> {
  for (const [source, target] of mountsOf(services[name])) {
    if (!isLocal(source) || !target.startsWith(`${path}/`)) continue
    const copy = join(folder, target.slice(path.length + 1))
    await mkdir(dirname(copy), { recursive: true })
    await cp(join(DEPLOY, source), copy)
  }
  return folder
}

describe('the composition', () => {
  it('is what docker compose takes', (context) => {
    const [program, ...before] = composeProgram()
    if (program === undefined) context.skip('docker compose is not installed: its own check was not made')
    const { status, stderr } = spawnSync(program, [...before, '-f', COMPOSE, 'config', '--quiet'], { encoding: 'utf8' })
    expect([status, stderr]).toEqual([0, ''])
  })

  it('says of each service only what is checked here', () => {
    expect(names.toSorted()).toEqual(
      ['apps', 'balancer', 'grafana', 'nats', 'prometheus', 'redis', 'sluice-1', 'sluice-2'].toSorted(),
    )
    for (const [name, service] of entries) {
      expect([name, Object.keys(service).filter((member) => !MEMBERS.has(member))]).toEqual([name, []])
    }
  })

  it('runs every service with a read-only root, no capability and no way to more', () => {
    for (const [name, service] of entries) {
      expect([name, service]).toEqual([
        name,
        expect.objectContaining({ read_only: true, cap_drop: ['ALL'], security_opt: ['no-new-privileges:true'] }),
      ])
      expect([name, service.restart]).toEqual([name, name === 'apps' ? 'no' : 'unless-stopped'])
    }
  })

  it('names the version of every image, and of its own the one in package.json', () => {
    for (const [name, service] of entries) {
      if (service.build === undefined)
        expect([name, service.image]).toEqual([name, expect.stringMatching(/:v?\d+\.\d+/)])
      else expect([service.image, service.build]).toEqual([`sluice:${manifest.version}`, '..'])
    }
  })

  it('publishes each port once, on loopback only', () => {
    const published = entries.flatMap(([, { ports = [] }]) => ports.map((port) => port.split(':')))
    expect(published.filter(([host]) => host !== '127.0.0.1')).toEqual([])
    expect(new Set(published.map(([, port]) => port)).size).toBe(published.length)
    for (const name of nodes) {
      const { publicPort, adminPort } = configOf(name)
      const inside = services[name].ports?.map((port) => Number(port.split(':')[2]))
      expect(inside).toEqual([publicPort, adminPort])
    }
  })

  it('mounts files that are there, read-only, and volumes that are declared', async () => {
    const mounts = entries.flatMap(([, service]) => mountsOf(service))
    for (const [source, , how] of mounts.filter(([from]) => isLocal(from))) {
      expect([source, (await stat(join(DEPLOY, source))).isFile(), how]).toEqual([source, true, 'ro'])
    }
    const volumes = mounts.map(([source]) => source).filter((source) => !isLocal(source))
    expect(volumes.toSorted()).toEqual(Object.keys(composition.volumes).toSorted())
  })

  it('waits only for what says that it is well, or that comes to its end', () => {
    const says = entries.filter(([name, { healthcheck }]) => healthcheck?.test !== undefined || nodes.includes(name))
    const healthy = says.map(([name]) => name)
    // Whoever starts it all with --wait waits for each of them.
    expect(healthy.toSorted()).toEqual(names.filter((name) => name !== 'apps').toSorted())
    for (const [, { depends_on = {} }] of entries) {
      for (const [name, { condition }] of Object.entries(depends_on)) {
        expect([name, condition]).toEqual([
          name,
          name === 'apps' ? 'service_completed_successfully' : 'service_healthy',
        ])
        expect(healthy.concat('apps')).toContain(name)
      }
    }
    expect(named(image, 'HEALTHCHECK')).toHaveLength(1)
  })
})

describe('the nodes', () => {
  it.each(nodes.concat('apps'))(
    '%s has settings that the service takes, and reaches Redis and NATS by name',
    (name) => {
      const { redis, nats, dataDirectory, appsFile } = configOf(name)
      expect([new URL(redis?.url ?? '').host, new URL(nats?.url ?? '').host]).toEqual(['redis:6379', 'nats:4222'])
      expect(Object.keys(services[name].depends_on ?? {}).toSorted()).toEqual(['nats', 'redis'])
      // Apps are in NATS; what the image would keep in a volume is in memory here.
      expect([appsFile, services[name].tmpfs]).toEqual([null, [dataDirectory]])
    },
  )

  it('have more time to stop than a drain takes', () => {
    for (const name of nodes) {
      expect(seconds(services[name].stop_grace_period) * 1000).toBeGreaterThan(configOf(name).shutdownMs)
    }
  })

  it('keep limits and events in servers that throw nothing away', () => {
    expect(services['redis'].command?.join(' ')).toMatch(/--appendonly yes .*--maxmemory-policy noeviction/)
    expect(services['nats'].command).toEqual(['--config', mountsOf(services['nats'])[1][1]])
    expect([services['redis'], services['nats']].map((service) => mountsOf(service)[0][1])).toEqual(['/data', '/data'])
  })

  it('find an app to try, which is added once', async () => {
    const { entrypoint = [], command = [] } = services['apps']
    const nats = await startNats()
    try {
      await symlink(join(ROOT, 'dist/main.js'), join(folder, 'sluice'))
      const env = { PATH: `${folder}:${process.env['PATH']}`, REDIS_URL: 'redis://redis:6379', NATS_URL: nats.url }
      const [first, second] = [1, 2].map(() =>
        spawnSync(entrypoint[0], [...entrypoint.slice(1), ...command], { env, encoding: 'utf8' }),
      )
      expect(first).toMatchObject({ status: 0, stdout: expect.stringMatching(/\bak_\w+/) })
      expect(first.stderr).toBe('app demo: added, plan 1m, active\n')
      expect(second.stdout).toMatch(/^demo /m)
      const { stdout } = await runCommand(['apps', 'list', '--json'], env, folder)
      expect(stdout.match(/"app_id": ?"demo"/g)).toHaveLength(1)
    } finally {
      await nats.stop()
    }
  })
})

describe('what stands around the nodes', () => {
  it('is a balancer that knows each node, and asks its admin port', async () => {
    const text = await inDeploy('balancers/haproxy.cfg')
    const servers = [...text.matchAll(/^ {2}server (\S+) (\S+)$/gm)].map(([, name, address]) => [name, address])
    expect(servers).toEqual(nodes.map((name) => [name, `${name}:${configOf(name).publicPort}`]))
    expect(Number(/default-server check port (\d+)/.exec(text)?.[1])).toBe(configOf(nodes[0]).adminPort)
    const bound = [...text.matchAll(/^ {2}bind :(\d+)$/gm)].map(([, port]) => port)
    // Its default is HTTP/1.0, which a node answers with 505.
    expect(text).toMatch(/^ {2}http-check send meth GET uri \/readyz ver HTTP\/1\.1 /m)
    expect(services['balancer'].ports).toEqual([`127.0.0.1:8080:${bound[0]}`])
    expect(services['balancer'].healthcheck?.test?.join(' ')).toContain(`127.0.0.1:${bound[1]}/`)
  })

  it('is a balancer that has a whole request before it asks a node, and lets go of idle connections before a node does', async () => {
    const text = await inDeploy('balancers/haproxy.cfg')
    expect(mountsOf(services['balancer']).map(([source]) => source)).toEqual(['./balancers/haproxy.cfg'])
    expect(text).toMatch(/^ {2}option http-buffer-request$/m)
    const bufferBytes = Number(/^ {2}tune\.bufsize (\d+)$/m.exec(text)?.[1])
    expect(bufferBytes).toBeGreaterThanOrEqual(MAX_BODY_BYTES + MAX_HEAD_BYTES)
    // Each time half of what is not needed goes: of 100,000 connections the last after about twenty times.
    const purgeMs = Number(/^ {2}default-server .* pool-purge-delay (\d+)ms$/m.exec(text)?.[1])
    expect(20 * purgeMs).toBeLessThan(NODE_IDLE_MS)
  })

  it('is a balancer whose file HAProxy takes', (context) => {
    const file = join(DEPLOY, 'balancers/haproxy.cfg')
    const { error, status, stdout, stderr } = spawnSync('haproxy', ['-c', '-f', file], { encoding: 'utf8' })
    if (error !== undefined) context.skip('haproxy is not installed: its own check of haproxy.cfg was not made')
    expect(`${status} ${stdout}${stderr}`).toMatch(/^0 [^]*Configuration file is valid/)
  })

  it('is a Prometheus that takes its file, reads the rules, and scrapes each node as the job they name', async () => {
    const file = join(await mountedFolder('prometheus', '/etc/prometheus'), 'prometheus.yaml')
    const { entrypoint = [], command = [], tmpfs } = services['prometheus']
    expect(tmpfs).toEqual(['/etc/prometheus/rules:mode=1777'])
    await mkdir(join(folder, 'rules'))
    // In the place of Prometheus, what tells its arguments. Compose wants a dollar to be doubled.
    await symlink('/bin/echo', join(folder, 'prometheus'))
    const here = entrypoint.map((each) => each.replaceAll('/etc/prometheus', folder).replaceAll('$$', '$'))
    const env = { PATH: `${folder}:${process.env['PATH']}` }
    const started = spawnSync(here[0], [...here.slice(1), ...command], { env, encoding: 'utf8' })
    expect([started.stderr, started.stdout]).toEqual(['', `${command.join(' ')}\n`])
    expect(parse(await readFile(join(folder, 'rules/sluice.yaml'), 'utf8'))).toEqual(await readRules())
    const { status, stdout, stderr } = spawnSync('promtool', ['check', 'config', file], { encoding: 'utf8' })
    expect([status, stderr]).toEqual([0, ''])
    expect(stdout).toMatch(/[1-9]\d* rules found/)
    const { scrape_configs: jobs } = parse(await readFile(file, 'utf8')) as {
      scrape_configs: { job_name: string; static_configs: { targets: string[] }[] }[]
    }
    const targets = nodes.map((name) => `${name}:${configOf(name).adminPort}`)
    // As in a cluster, where the dashboard names both.
    const labels = { cluster: 'laptop', namespace: 'sluice' }
    expect(jobs).toEqual([{ job_name: 'sluice', static_configs: [{ targets, labels }] }])
    expect(services['prometheus'].command).toContain('--config.file=/etc/prometheus/prometheus.yaml')
  })

  it('is a Prometheus that keeps what the rules look back on', async () => {
    const rules = await inDeploy('monitoring/prometheus-rule.yaml')
    const spans = [...rules.matchAll(/\[(\d+)d\]/g)].map(([, days]) => Number(days))
    const kept = /--storage\.tsdb\.retention\.time=(\d+)d/.exec((services['prometheus'].command ?? []).join(' '))?.[1]
    expect(spans).toContain(30)
    expect(Number(kept)).toBeGreaterThan(Math.max(...spans))
  })

  it('is a Grafana that finds Prometheus, and the dashboard on its first page', async () => {
    const { datasources } = parse(await inDeploy('compose/grafana/datasource.yaml')) as {
      datasources: { type: string; url: string; isDefault: boolean; jsonData: { timeInterval: string } }[]
    }
    const { global } = parse(await inDeploy('compose/prometheus.yaml')) as { global: { scrape_interval: string } }
    expect(datasources).toEqual([
      expect.objectContaining({
        url: 'http://prometheus:9090',
        isDefault: true,
        jsonData: { timeInterval: global.scrape_interval },
      }),
    ])
    const { providers } = parse(await inDeploy('compose/grafana/dashboards.yaml')) as {
      providers: { options: { path: string } }[]
    }
    const home = services['grafana'].environment?.['GF_DASHBOARDS_DEFAULT_HOME_DASHBOARD_PATH']
    const mounts = mountsOf(services['grafana'])
    const [source] = mounts.find(([, target]) => target === home) ?? []
    expect(providers.map(({ options }) => options.path)).toEqual([dirname(home ?? '')])
    const dashboard = JSON.parse(await inDeploy(source)) as {
      templating: { list: { name: string; type: string; query: string }[] }
    }
    const variable = dashboard.templating.list.find(({ name }) => name === 'datasource')
    expect([variable?.type, variable?.query]).toEqual(['datasource', datasources[0].type])
    // Grafana reads what lies in these two folders.
    const provisioned = mounts
      .filter(([from]) => from.startsWith('./compose/'))
      .map(([from, to]) => [basename(from), basename(dirname(to))])
    expect(provisioned).toEqual([
      ['datasource.yaml', 'datasources'],
      ['dashboards.yaml', 'dashboards'],
    ])
  })
})

/** The plugin of docker, or a program of its own; nothing where there is neither. */
function composeProgram(): string[] {
  const forms = [['docker', 'compose'], ['docker-compose']]
  const answers = ([program, ...before]: string[]): boolean =>
    spawnSync(program, [...before, 'version'], { stdio: 'ignore' }).status === 0
  return forms.find(answers) ?? []
}
