// NATS as the manifests configure it, in real servers: addresses and folders alone are others, and one line is left out
// where nats-server is older than the image.

import { execFileSync } from 'node:child_process'
import { writeFileSync } from 'node:fs'
import { join } from 'node:path'
import { configurationOf, environmentOf, expand, workload } from './kubernetes-view.ts'
import type { KubernetesObject } from './kustomize.ts'
import { NATS_SERVER } from './nats.ts'
import { freePort, type Program, startProgram } from './programs.ts'
import { eventually } from './service.ts'

/** A password for each user of NATS. */
const PASSWORDS = {
  sluice: 'pSluice1',
  sluice2: 'pSluice2',
  operator: 'pOperator1',
  reader: 'pReader1',
  system: 'pSystem1',
}
type User = keyof typeof PASSWORDS
const ROUTES_PASSWORD = 'pRoutes1'
export const SERVERS = 3
const RELOADED = 'Reloaded server configuration'
const NATS_VERSION = execFileSync(NATS_SERVER, ['--version'], { encoding: 'utf8' })
export const KNOWS_SYNC_INTERVAL = !/v2\.[0-9]\./.test(NATS_VERSION)

/** As it stands, but for the line that nats-server 2.9 does not know. */
export function natsConfiguration(objects: readonly KubernetesObject[]): string {
  const text = configurationOf(objects, 'nats-config', 'nats.conf')
  return KNOWS_SYNC_INTERVAL ? text : text.replace(/^ *sync_interval:.*\n/m, '')
}

interface Replacement {
  readonly found: string
  readonly by: string
}

/** Each must be there once: a line that is written otherwise one day must not be left as it is in silence. */
export function replaceEach(text: string, replacements: readonly Replacement[]): string {
  return replacements.reduce((before, { found, by }) => {
    if (before.split(found).length !== 2) throw new Error(`${JSON.stringify(found)} is not there once`)
    return before.replace(found, by)
  }, text)
}

/** The files of the Secret nats-passwords, as docs/kubernetes.md makes them. */
export function passwordFiles(
  routePorts: readonly number[],
  { routes = ROUTES_PASSWORD, ...others }: Readonly<Partial<Record<User | 'routes', string>>> = {},
): Record<string, string> {
  const users = Object.entries({ ...PASSWORDS, ...others })
  return {
    ...Object.fromEntries(
      users.map(([user, password]) => [`${user}.conf`, `NATS_${user.toUpperCase()}_PASSWORD: ${password}`]),
    ),
    'routes.conf': routesOf(routePorts, routes),
  }
}

export function writeFiles(folder: string, files: Readonly<Record<string, string>>): void {
  for (const [name, text] of Object.entries(files)) writeFileSync(join(folder, name), text)
}

export interface ProductionServer {
  readonly program: Program
  readonly name: string
  readonly monitorPort: number
  readonly pidFile: string
}

export interface ProductionNats {
  readonly servers: readonly ProductionServer[]
  /** Puts other passwords beside each server's configuration, which it reads again. */
  readonly reload: (passwords: Readonly<Partial<Record<User | 'routes', string>>>) => Promise<void>
  readonly stop: () => Promise<void>
}

/** The StatefulSet of production, with each pod's command line, configuration and environment. */
export async function startProductionNats(production: readonly KubernetesObject[]): Promise<ProductionNats> {
  const [container] = workload(production, 'nats').pod.containers
  const routePorts = await Promise.all(Array.from({ length: SERVERS }, () => freePort()))
  const servers = await Promise.all(
    routePorts.map(async (routePort, at) => {
      const monitorPort = await freePort()
      const env = {
        ...environmentOf(production, container, () => ''),
        POD_NAME: `nats-${at}`,
      }
      const args = (container.args ?? []).map((arg) => expand(arg, env))
      const program = await startProgram({
        name: 'nats',
        command: ({ port, folder }) => {
          const file = join(folder, 'nats.conf')
          const adapted = replaceEach(natsConfiguration(production), [
            { found: '\nport: 4222\n', by: `\nhost: 127.0.0.1\nport: ${port}\n` },
            { found: '\nhttp_port: 8222\n', by: `\nhttp: "127.0.0.1:${monitorPort}"\n` },
            { found: '"/var/run/nats/nats.pid"', by: JSON.stringify(join(folder, 'pid')) },
            { found: 'store_dir: "/data"', by: `store_dir: ${JSON.stringify(join(folder, 'data'))}` },
            { found: '\n  port: 6222\n', by: `\n  host: 127.0.0.1\n  port: ${routePort}\n` },
          ])
          writeFileSync(file, adapted)
          writeFiles(folder, passwordFiles(routePorts))
          const settings = Object.entries(env).map(([name, value]) => `${name}=${value}`)
          return ['env', ...settings, NATS_SERVER, ...args.map((arg) => arg.replace('/etc/nats/nats.conf', file))]
        },
      })
      return {
        program,
        name: env.POD_NAME,
        monitorPort,
        pidFile: join(program.folder, 'pid'),
      }
    }),
  )
  return {
    servers,
    reload: async (passwords) => {
      for (const { program } of servers) {
        const before = program.output().split(RELOADED).length
        writeFiles(program.folder, passwordFiles(routePorts, passwords))
        process.kill(program.pid, 'SIGHUP')
        await eventually('the server has read them', () => program.output().split(RELOADED).length > before)
      }
    },
    stop: async () => {
      await Promise.all(servers.map(({ program }) => program.stop()))
    },
  }
}

function routesOf(ports: readonly number[], password: string): string {
  const routes = ports.map((port) => `'nats://routes:${password}@127.0.0.1:${port}'`)
  return `authorization: { user: routes, password: ${password}, timeout: 5 }; routes: [${routes.join(', ')}, ]`
}

export function urlOf(servers: readonly ProductionServer[], user: User, password: string = PASSWORDS[user]): string {
  return servers.map(({ program }) => `nats://${user}:${password}@127.0.0.1:${program.port}`).join(',')
}
