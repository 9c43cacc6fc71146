import { mkdtempSync, readFileSync, rmSync, writeFileSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { afterAll, describe, expect, test } from 'vitest'
import { ConfigError } from '../../../src/lib/errors.ts'
import { openFilesProblem, readConfig } from '../../../src/settings/config.ts'
import type { Machine } from '../../../src/settings/machine.ts'
import { SETTING_NAMES, SETTINGS } from '../../../src/settings/settings.ts'

const MIB = 1024 * 1024
const machine: Machine = {
  parallelism: 4,
  simdjsonAvailable: () => false,
  maxOpenFiles: () => 20_000,
  unreadable: () => null,
  readValueFile: (path: string) => `value of ${path}`,
}

function mistakesOf(env: Record<string, string>, on: Partial<Machine> = {}): readonly string[] {
  try {
    readConfig(env, { ...machine, ...on })
  } catch (error) {
    if (error instanceof ConfigError) return error.mistakes
    throw error
  }
  return []
}

describe('the portal', () => {
  const portal = { SLUICE_PORTAL_PORT: '9191' }

  test('is there where its port is named, and keeps open files for its connections', () => {
    const config = readConfig(portal, machine)
    expect(config.portal).toEqual({ port: 9191, host: '127.0.0.1', origin: null })
    expect(config.maxConnections).toBe(readConfig({}, machine).maxConnections - 400)
  })

  test('wants an https origin on any address but loopback ones', () => {
    const wrong = [
      'SLUICE_PORTAL_ORIGIN: must be given, as https://…, where SLUICE_PORTAL_HOST is not a loopback address',
    ]
    const open = { ...portal, SLUICE_PORTAL_HOST: '0.0.0.0' }
    expect(mistakesOf(open)).toEqual(wrong)
    expect(mistakesOf({ ...open, SLUICE_PORTAL_ORIGIN: 'http://usage.example.com' })).toEqual(wrong)
    expect(mistakesOf({ ...open, SLUICE_PORTAL_ORIGIN: 'https://usage.example.com' })).toEqual([])
    expect(mistakesOf({ ...portal, SLUICE_PORTAL_HOST: '127.0.0.2' })).toEqual([])
  })

  test('is not believed to be there by its address or origin alone', () => {
    const without = { SLUICE_PORTAL_HOST: '127.0.0.1', SLUICE_PORTAL_ORIGIN: 'https://usage.example.com' }
    const mistakes = Object.keys(without).map((name) => `${name}: must be given with SLUICE_PORTAL_PORT`)
    expect(mistakesOf(without)).toEqual(mistakes)
    expect(mistakesOf({ ...without, ...portal })).toEqual([])
  })

  test('has a port of its own', () => {
    expect(mistakesOf({ SLUICE_PORTAL_PORT: '9090' })).toEqual([
      'SLUICE_PORTAL_PORT: must differ from PORT and SLUICE_ADMIN_PORT',
    ])
  })

  test('trusts addresses and ranges of proxies, and nothing else', () => {
    const given = { SLUICE_TRUSTED_PROXIES: '10.0.0.0/8, 192.0.2.7,fd00::/8' }
    expect(readConfig(given, machine).trustedProxies).toEqual(['10.0.0.0/8', '192.0.2.7', 'fd00::/8'])
    for (const wrong of ['proxy', '10.0.0.0/33', '10.0.0.0/8/8', '10.0.0.0/']) {
      expect([wrong, mistakesOf({ SLUICE_TRUSTED_PROXIES: wrong }).length]).toEqual([wrong, 1])
    }
  })

  test('a token for reading alone is another one', () => {
    const token = 'a-token-of-twenty-ch'
    expect(mistakesOf({ SLUICE_CONSOLE_TOKEN: token, SLUICE_CONSOLE_READ_TOKEN: token })).toEqual([
      'SLUICE_CONSOLE_READ_TOKEN: must differ from SLUICE_CONSOLE_TOKEN',
    ])
  })
})

describe('with nothing set', () => {
  const config = readConfig({}, machine)

  test('every default is the documented one', () => {
    expect(config).toEqual({
      publicPort: 8080,
      publicHost: '::',
      httpEngine: 'auto',
      adminPort: 9090,
      adminPortNamed: false,
      adminHost: '127.0.0.1',
      consoleToken: null,
      consoleTokenFile: null,
      consoleOrigin: null,
      consoleReadToken: null,
      portal: null,
      trustedProxies: [],
      dataDirectory: './data',
      appsFile: 'data/apps.json',
      appsFileNamed: false,
      redis: null,
      nats: null,
      natsMonitorUrls: [],
      requireSync: false,
      embedded: true,
      ringBytes: 64 * MIB,
      parsers: 3,
      processes: 1,
      decoder: 'scanner',
      partitions: 16,
      spool: null,
      journalMaxBytes: 10_240 * MIB,
      journalKeepMs: 72 * 3_600_000,
      journalKeepNamed: false,
      maxKeys: 4_000_000,
      maxConnections: 20_000 - (64 + 128 + 4 * 8),
      shutdownMs: 25_000,
      stream: { replicas: 1, keepMs: 72 * 3_600_000, maxBytes: null },
      drainDelayMs: 0,
      tls: null,
      corsOrigins: null,
      logLevel: 'info',
    })
  })

  test('the default of connections leaves open files for the journal, the stores, the threads and the admin port', () => {
    expect(readConfig({ SLUICE_PARSERS: '1' }, { ...machine, maxOpenFiles: () => 256 }).maxConnections).toBe(48)
    expect(readConfig({ SLUICE_MAX_CONNECTIONS: '100' }, machine).maxConnections).toBe(100)
    const processes = { SLUICE_PROCESSES: '3', REDIS_URL: 'redis://r', NATS_URL: 'nats://n' }
    expect(readConfig({ ...processes, SLUICE_MAX_CONNECTIONS: '100' }, machine).maxConnections).toBe(33)
    expect(readConfig({ ...processes, SLUICE_MAX_CONNECTIONS: '2' }, machine).maxConnections).toBe(1)
    expect(readConfig(processes, machine).maxConnections).toBe(20_000 - (64 + 128 + 2 * 8))
  })

  test('more connections than open files are a problem where the service runs, and so is a limit that leaves none', () => {
    const most = readConfig({ SLUICE_MAX_CONNECTIONS: '19776' }, machine)
    expect(openFilesProblem(most, 20_000)).toBe(null)
    expect(openFilesProblem(most, 19_999)).toBe(
      'a process with 19776 connections and 4 threads wants 20000 open files, and may have 19999; ' +
        'raise the limit of open files (ulimit -n), or lower SLUICE_MAX_CONNECTIONS',
    )
    const few = readConfig({}, { ...machine, maxOpenFiles: () => 200 })
    expect(openFilesProblem(few, 200)).toMatch(/^a process with 16 connections and 4 threads wants 240 open files/)
  })

  test('the settings are frozen', () => {
    expect(Object.isFrozen(config)).toBe(true)
  })

  test('one core still gets one parser', () => {
    expect(readConfig({}, { ...machine, parallelism: 1 }).parsers).toBe(1)
  })

  test('processes share the cores, with at least one parser each', () => {
    const four = { SLUICE_PROCESSES: '4', REDIS_URL: 'redis://r', NATS_URL: 'nats://n' }
    expect(readConfig(four, { ...machine, parallelism: 16 }).parsers).toBe(3)
    expect(readConfig(four, { ...machine, parallelism: 6 }).parsers).toBe(1)
    expect(readConfig({ ...four, SLUICE_PARSERS: '2' }, { ...machine, parallelism: 16 }).parsers).toBe(2)
  })
})

test('every value is read, in bytes and milliseconds', () => {
  const config = readConfig(
    {
      PORT: '0',
      HOST: '::1',
      SLUICE_ADMIN_PORT: '0',
      SLUICE_ADMIN_HOST: 'localhost',
      SLUICE_DATA_DIR: '/var/lib/sluice',
      SLUICE_RING_MB: '4',
      SLUICE_PARSERS: '2',
      SLUICE_PARTITIONS: '8',
      SLUICE_STREAM_KEEP_HOURS: '5',
      SLUICE_STREAM_MAX_GB: '2',
      SLUICE_STREAM_REPLICAS: '3',
      SLUICE_JOURNAL_MAX_MB: '1',
      SLUICE_JOURNAL_KEEP_HOURS: '2',
      SLUICE_MAX_KEYS: '10',
      SLUICE_SHUTDOWN_SECONDS: '5',
      SLUICE_DRAIN_DELAY_SECONDS: '4',
      SLUICE_TLS_CERT: 'cert.pem',
      SLUICE_TLS_KEY: 'key.pem',
      SLUICE_LOG_LEVEL: 'warn',
    },
    machine,
  )
  expect(config).toMatchObject({
    publicPort: 0,
    publicHost: '::1',
    adminPort: 0,
    adminPortNamed: true,
    adminHost: 'localhost',
    dataDirectory: '/var/lib/sluice',
    appsFile: '/var/lib/sluice/apps.json',
    ringBytes: 4 * MIB,
    parsers: 2,
    partitions: 8,
    stream: { replicas: 3, keepMs: 18_000_000, maxBytes: 2048 * MIB },
    journalMaxBytes: MIB,
    journalKeepMs: 7_200_000,
    journalKeepNamed: true,
    maxKeys: 10,
    shutdownMs: 5000,
    drainDelayMs: 4000,
    tls: { certFile: 'cert.pem', keyFile: 'key.pem' },
    logLevel: 'warn',
  })
})

describe('shared parts', () => {
  const both = { REDIS_URL: 'redis://r', NATS_URL: 'nats://n' }

  test('make the admin port listen on every address', () => {
    const urls = { NATS_URL: 'nats://a:4222, tls://b:4222', REDIS_URL: 'rediss://:secret@redis:6379/1' }
    expect(readConfig(urls, machine)).toMatchObject({
      adminHost: '::',
      embedded: false,
      nats: {
        url: 'nats://a:4222, tls://b:4222',
        urlFile: null,
        credsFile: null,
        caFile: null,
        certFile: null,
        keyFile: null,
      },
      redis: { url: 'rediss://:secret@redis:6379/1', urlFile: null, caFile: null, certFile: null, keyFile: null },
    })
  })

  test('keep apps in NATS unless a file is named', () => {
    expect(readConfig(both, machine).appsFile).toBeNull()
    const named = readConfig({ ...both, SLUICE_APPS_FILE: 'mine.json' }, machine)
    expect(named).toMatchObject({ appsFile: 'mine.json', appsFileNamed: true })
  })

  test('are given both or neither: the mistake names the missing one', () => {
    expect(mistakesOf({ REDIS_URL: 'redis://:secret@r' })).toEqual([
      'NATS_URL: must be given with REDIS_URL: both for many nodes, neither for this machine alone',
    ])
    expect(mistakesOf({ NATS_URL: 'nats://n', REDIS_URL: '' })).toEqual([
      'REDIS_URL: must be given with NATS_URL: both for many nodes, neither for this machine alone',
    ])
    expect(mistakesOf({ REDIS_URL: '', NATS_URL: '' })).toEqual([])
  })

  test('reach NATS with files, each of which must be readable', () => {
    const files = { NATS_CREDS: 'u.creds', NATS_CA: 'ca.pem', NATS_CERT: 'c.pem', NATS_KEY: 'c.key' }
    const { nats } = readConfig({ ...both, ...files }, machine)
    expect(nats).toEqual({
      url: 'nats://n',
      urlFile: null,
      credsFile: 'u.creds',
      caFile: 'ca.pem',
      certFile: 'c.pem',
      keyFile: 'c.key',
    })
    const unreadable = (path: string) => `no ${path}`
    expect(mistakesOf({ ...both, ...files }, { ...machine, unreadable })).toEqual([
      'NATS_CREDS: no u.creds',
      'NATS_CA: no ca.pem',
      'NATS_CERT: no c.pem',
      'NATS_KEY: no c.key',
    ])
  })

  test('reach Redis with files, each of which must be readable, and with a certificate and its key together', () => {
    const files = { REDIS_CA: 'ca.pem', REDIS_CERT: 'c.pem', REDIS_KEY: 'c.key' }
    expect(readConfig({ ...both, ...files }, machine).redis).toEqual({
      url: 'redis://r',
      urlFile: null,
      caFile: 'ca.pem',
      certFile: 'c.pem',
      keyFile: 'c.key',
    })
    expect(mistakesOf({ ...both, ...files }, { unreadable: (path: string) => `no ${path}` })).toEqual([
      'REDIS_CA: no ca.pem',
      'REDIS_CERT: no c.pem',
      'REDIS_KEY: no c.key',
    ])
    expect(mistakesOf({ ...both, REDIS_CERT: 'c.pem' })).toEqual(['REDIS_KEY: must be given with REDIS_CERT'])
    expect(mistakesOf({ REDIS_CA: 'ca.pem' })).toEqual(['REDIS_CA: must be given with REDIS_URL'])
  })

  test('may be named in files, of which the mistakes name the file and never its text', () => {
    const values: Record<string, string> = { r: 'redis://:secret@r', n: 'nats://n', t: 'a-token-of-twenty-ch' }
    const on = { readValueFile: (path: string) => values[path] ?? 'nothing of the kind: s3cret' }
    const inFiles = { REDIS_URL_FILE: 'r', NATS_URL_FILE: 'n', SLUICE_CONSOLE_TOKEN_FILE: 't' }
    expect(readConfig(inFiles, { ...machine, ...on })).toMatchObject({
      embedded: false,
      redis: { url: 'redis://:secret@r', urlFile: 'r' },
      nats: { url: 'nats://n', urlFile: 'n' },
      consoleToken: 'a-token-of-twenty-ch',
      consoleTokenFile: 't',
    })
    expect(mistakesOf({ ...inFiles, REDIS_URL_FILE: 'x', SLUICE_CONSOLE_TOKEN_FILE: 'x' }, on)).toEqual([
      'SLUICE_CONSOLE_TOKEN_FILE: must have 16 to 256 characters of ASCII, without spaces',
      expect.stringMatching(/^REDIS_URL_FILE: must be a URL that begins with redis:\/\/ or rediss:\/\/, with /),
    ])
    expect(mistakesOf({ ...inFiles, REDIS_URL: 'redis://r' }, on)).toEqual([
      'REDIS_URL_FILE: give it or REDIS_URL, not both',
    ])
    const unreadable = () => {
      throw new Error('gone')
    }
    expect(mistakesOf(inFiles, { readValueFile: unreadable })).toEqual([
      'REDIS_URL_FILE: gone',
      'NATS_URL_FILE: gone',
      'SLUICE_CONSOLE_TOKEN_FILE: gone',
    ])
    expect(mistakesOf({ REDIS_URL_FILE: 'r' }, on)).toEqual([
      'NATS_URL: must be given with REDIS_URL: both for many nodes, neither for this machine alone',
    ])
  })

  test('say who they are to NATS once, with a certificate and its key together, and only where there is a NATS', () => {
    const nats = { ...both, NATS_URL: 'nats://a,nats://user:secret@b' }
    expect(mistakesOf({ ...nats, NATS_CREDS: 'u.creds' })).toEqual([
      'NATS_CREDS: NATS_URL names a user: give one of the two',
    ])
    expect(mistakesOf({ ...both, NATS_CERT: 'c.pem' })).toEqual(['NATS_KEY: must be given with NATS_CERT'])
    expect(mistakesOf({ NATS_CA: 'ca.pem' })).toEqual(['NATS_CA: must be given with NATS_URL'])
    expect(mistakesOf({ SLUICE_REQUIRE_SYNC: 'true' })).toEqual(['SLUICE_REQUIRE_SYNC: must be given with NATS_URL'])
  })

  test('are one mistake where one of them is not a URL', () => {
    expect(mistakesOf({ REDIS_URL: 'r', NATS_URL: 'nats://n' })).toEqual([
      expect.stringContaining('REDIS_URL: must be a URL'),
    ])
  })

  test('are both needed for several processes', () => {
    expect(mistakesOf({ SLUICE_PROCESSES: '2', ...both })).toEqual([])
    expect(mistakesOf({ SLUICE_PROCESSES: '2' })).toHaveLength(1)
    expect(mistakesOf({ SLUICE_PROCESSES: '2', REDIS_URL: 'redis://r' })).toHaveLength(1)
  })

  test.each([
    ['REDIS_URL', 'http://secret@host'],
    ['REDIS_URL', 'redis://a:1,redis://b:2'],
    ['REDIS_URL', 'redis:secret'],
    ['REDIS_URL', 'redis://secret@:6379'],
    ['REDIS_URL', 'redis://:secret%@host'],
    ['REDIS_URL', 'redis://:secret@host/name'],
    ['REDIS_URL', 'redis://:secret@host/1/2'],
    ['NATS_URL', 'secret:4222'],
    ['NATS_URL', 'nats://secret:4222,'],
    ['NATS_URL', 'nats://secret:99999'],
    ['NATS_URL', 'nats://a,nats://user:secret%zz@b'],
  ])('%s refuses %s, and does not show it: it may hold a password', (name, value) => {
    const mistakes = mistakesOf({ ...both, [name]: value })
    expect(mistakes).toHaveLength(1)
    expect(mistakes[0]).toMatch(new RegExp(`^${name}: must be a URL`))
    expect(mistakes[0]).not.toContain('secret')
  })
})

test('segments are kept for the hours that are named, or for good, and the config knows whether any were', () => {
  const kept = (text: string) => {
    const { journalKeepMs, journalKeepNamed } = readConfig({ SLUICE_JOURNAL_KEEP_HOURS: text }, machine)
    return [journalKeepMs, journalKeepNamed]
  }
  expect(kept('')).toEqual([72 * 3_600_000, false])
  expect(kept('72')).toEqual([72 * 3_600_000, true])
  expect(kept('all')).toEqual([null, true])
})

test('the default of the admin port is held against PORT too', () => {
  expect(mistakesOf({ PORT: '9090' })).toEqual(['SLUICE_ADMIN_PORT: must differ from PORT'])
})

describe('mistakes', () => {
  test.each([
    ['PORT', ['-1', '65536', '80.5', '0x50', ' 80', '1e3', 'http']],
    ['HOST', ['[::1]', 'a b', 'host:80', '-a']],
    ['SLUICE_RING_MB', ['3', '1025']],
    ['SLUICE_PARSERS', ['0', '257']],
    ['SLUICE_PROCESSES', ['0']],
    ['SLUICE_PARTITIONS', ['0', '1025']],
    ['SLUICE_STREAM_KEEP_HOURS', ['0', '0.5', '72h']],
    ['SLUICE_STREAM_MAX_GB', ['0', '-1', '1.5']],
    ['SLUICE_JOURNAL_MAX_MB', ['0', '10GB']],
    ['SLUICE_JOURNAL_KEEP_HOURS', ['0', '0.5', 'ALL', 'none']],
    ['SLUICE_MAX_KEYS', ['0']],
    ['SLUICE_SHUTDOWN_SECONDS', ['0', '3601']],
    ['SLUICE_DRAIN_DELAY_SECONDS', ['-1']],
    ['SLUICE_DECODER', ['fast', 'Scanner']],
    [
      'SLUICE_CONSOLE_TOKEN',
      ['fifteen-letters', 'a token with spaces in it', 'ä token of many letters'.replaceAll(' ', '-')],
    ],
    ['SLUICE_LOG_LEVEL', ['INFO', 'verbose']],
  ])('%s refuses %j', (name, values) => {
    for (const value of values)
      expect(mistakesOf({ [name]: value })).toEqual([expect.stringContaining(`${name}: must`)])
  })

  test('a wrong token is not shown', () => {
    const [mistake = ''] = mistakesOf({ SLUICE_CONSOLE_TOKEN: 'too-short' })
    expect(mistake).toBe('SLUICE_CONSOLE_TOKEN: must have 16 to 256 characters of ASCII, without spaces')
  })

  test('all are reported at once', () => {
    const mistakes = mistakesOf({ PORT: 'x', SLUICE_RING_MB: '1', SLUICE_SPEED: 'high', SLUICE_TLS_CERT: 'c' })
    expect(mistakes.map((mistake) => mistake.split(':')[0])).toEqual([
      'SLUICE_SPEED',
      'PORT',
      'SLUICE_RING_MB',
      'SLUICE_TLS_KEY',
    ])
  })

  test('the message lists each on its own line, and a single one on the first', () => {
    expect(new ConfigError(['a', 'b']).message).toBe('the settings are wrong:\n  - a\n  - b')
    expect(new ConfigError(['a']).message).toBe('the settings are wrong: a')
  })

  test('a typo in a name is reported with the likely name', () => {
    expect(mistakesOf({ SLUICE_PARSER: '2' })).toEqual(['SLUICE_PARSER: no such setting; did you mean SLUICE_PARSERS?'])
    expect(mistakesOf({ SLUICE_PORT: '80' })).toEqual([expect.stringContaining('did you mean PORT?')])
    expect(mistakesOf({ SLUICE_ENTIRELY_DIFFERENT_THING: '1' })).toEqual([
      'SLUICE_ENTIRELY_DIFFERENT_THING: no such setting',
    ])
  })

  test('variables that Kubernetes sets for a Service named sluice are explained', () => {
    const [unknown, port] = mistakesOf({
      SLUICE_SERVICE_URL: 'tcp://10.0.0.1:80',
      SLUICE_ADMIN_PORT: 'tcp://10.0.0.1:80',
    })
    expect(unknown).toContain('enableServiceLinks: false')
    expect(port).toContain('enableServiceLinks: false')
  })

  test('an empty value counts as unset', () => {
    const empty = Object.fromEntries(SETTING_NAMES.map((name) => [name, '']))
    expect(readConfig(empty, machine)).toEqual(readConfig({}, machine))
    expect(mistakesOf({ SLUICE_TYPO: '' })).toHaveLength(1)
  })

  test('other variables are ignored', () => {
    expect(mistakesOf({ PATH: '/bin', SLUICEGATE: 'x', npm_config_x: 'y' })).toEqual([])
  })
})

describe('origins of web pages', () => {
  const read = (text: string) => readConfig({ SLUICE_CORS_ORIGINS: text }, machine).corsOrigins

  test.each([
    ['https://app.example.com', ['https://app.example.com']],
    ['HTTPS://App.Example.com:443', ['https://app.example.com']],
    ['http://localhost:3000, http://[::1]:80', ['http://localhost:3000', 'http://[::1]']],
    ['https://bücher.example', ['https://xn--bcher-kva.example']],
    ['capacitor://localhost,ionic://LocalHost', ['capacitor://localhost', 'ionic://localhost']],
    ['*', '*'],
  ])('%s is read as browsers say it', (text, origins) => {
    expect(read(text)).toEqual(origins)
  })

  test.each([
    'app.example.com',
    'https://',
    'https://app.example.com/',
    'https://app.example.com/path',
    'https://app.example.com?a=b',
    'https://user@app.example.com',
    'https://app.example.com:99999',
    'https://*.example.com',
    'https://a.example,*',
    'https://a.example,',
    'https://a.example https://b.example',
    'https://a.example\r\nX-Evil: 1',
    'null',
  ])('%j is refused', (text) => {
    expect(mistakesOf({ SLUICE_CORS_ORIGINS: text })).toEqual([
      `SLUICE_CORS_ORIGINS: must be * alone, or origins such as https://app.example.com, without a path, with commas between, not ${JSON.stringify(text)}`,
    ])
  })
})

describe('the public address of the console', () => {
  test.each([
    ['https://sluice.example.com', 'https://sluice.example.com'],
    ['HTTPS://Sluice.Example.com:443', 'https://sluice.example.com'],
    ['http://[::1]:9090', 'http://[::1]:9090'],
  ])('%s is read as browsers say it', (text, origin) => {
    expect(readConfig({ SLUICE_CONSOLE_ORIGIN: text }, machine).consoleOrigin).toBe(origin)
  })

  test.each([
    'sluice.example.com',
    'https://',
    'https://sluice.example.com/console',
    'https://user@sluice.example.com',
    'https://a.example,https://b.example',
    'capacitor://localhost',
    '*',
  ])('%j is refused', (text) => {
    expect(mistakesOf({ SLUICE_CONSOLE_ORIGIN: text })).toEqual([
      `SLUICE_CONSOLE_ORIGIN: must be an origin such as https://sluice.example.com, without a path, not ${JSON.stringify(text)}`,
    ])
  })
})

describe('settings that depend on each other', () => {
  test('the two ports differ, unless the system chooses', () => {
    expect(mistakesOf({ PORT: '9090' })).toEqual([expect.stringContaining('SLUICE_ADMIN_PORT: must differ')])
    expect(mistakesOf({ PORT: '0', SLUICE_ADMIN_PORT: '0' })).toEqual([])
  })

  test('the drain delay is part of the time for the shutdown', () => {
    expect(mistakesOf({ SLUICE_DRAIN_DELAY_SECONDS: '25' })).toHaveLength(1)
    expect(mistakesOf({ SLUICE_DRAIN_DELAY_SECONDS: '24' })).toEqual([])
  })

  test('simdjson is refused where the package is missing', () => {
    const { peerDependencies } = JSON.parse(readFileSync('package.json', 'utf8'))
    const cure = `simdjson is not installed; npm install simdjson@${peerDependencies.simdjson} `
    expect(mistakesOf({ SLUICE_DECODER: 'simdjson' })).toEqual([expect.stringContaining(cure)])
    expect(mistakesOf({ SLUICE_DECODER: 'simdjson' }, { simdjsonAvailable: () => true })).toEqual([])
  })
})

describe('TLS files', () => {
  const folder = mkdtempSync(join(tmpdir(), 'sluice-config-'))
  const file = join(folder, 'cert.pem')
  writeFileSync(file, 'PEM')
  afterAll(() => rmSync(folder, { recursive: true }))

  test('come in pairs', () => {
    expect(mistakesOf({ SLUICE_TLS_CERT: file })).toEqual(['SLUICE_TLS_KEY: must be given with SLUICE_TLS_CERT'])
    expect(mistakesOf({ SLUICE_TLS_KEY: file })).toEqual(['SLUICE_TLS_CERT: must be given with SLUICE_TLS_KEY'])
  })

  test('must be there, and be files', () => {
    expect(() => readConfig({ SLUICE_TLS_CERT: file, SLUICE_TLS_KEY: file })).not.toThrow()
    expect(() => readConfig({ SLUICE_TLS_CERT: file, SLUICE_TLS_KEY: join(folder, 'none') })).toThrow(
      /SLUICE_TLS_KEY: cannot read/,
    )
    expect(() => readConfig({ SLUICE_TLS_CERT: folder, SLUICE_TLS_KEY: file })).toThrow(
      /SLUICE_TLS_CERT: .* not a file/,
    )
  })
})

test('every setting has a description and a default in words', () => {
  for (const name of SETTING_NAMES) {
    expect(SETTINGS[name].about).not.toBe('')
    expect(SETTINGS[name].defaultText).not.toBe('')
  }
})
