// Every primitive of the console in each of its states, on one page: to look at, and for a test that photographs it.

import { type JSX, render } from 'preact'
import { coloured, Json } from '../../src/console/web/parts/code.tsx'
import { Icon } from '../../src/console/web/parts/icons.tsx'
import { Plot, Spark } from '../../src/console/web/parts/plot.tsx'
import '../../src/console/web/style.css'
import { Copy, Tabs } from '../../src/console/web/parts/controls.tsx'
import {
  AppName,
  Bar,
  Card,
  Dot,
  Empty,
  Facts,
  List,
  Note,
  Pill,
  Stat,
  Verdict,
  vars,
} from '../../src/console/web/parts/ui.tsx'

const TONES = ['ok', 'client', 'plan', 'near', 'fail'] as const
const CODES = [
  'validation_failed',
  'invalid_app_key',
  'subscription_inactive',
  'rate_limit_exceeded',
  'service_overloaded',
]
const APPS = ['shop', 'mobile-ios', 'newsletter', 'checkout', 'kiosk', 'games', 'maps', 'partners']
const CELLS = Array.from({ length: 60 }, (_, at) => 30 + 8 * Math.sin(at / 6))
const LOW = CELLS.map((value, at) => (at > 40 ? value / 3 : value / 12))

function nothing(): void {
  // Nothing follows a click here.
}

function Words(): JSX.Element {
  return (
    <Card title="Words and tones">
      <div class="body stack">
        <div class="row wrap">
          <span class="figure">
            1,820 <small>of 2,000</small>
          </span>
          <h1>title</h1>
          <span class="t14">prose</span>
          <span class="t12 dim">label</span>
          <span class="mid">second line</span>
          <span class="mono">0O1lI</span>
        </div>
        <div class="row wrap">
          {TONES.map((tone) => (
            <span key={tone} class={`row said ${tone}`}>
              <Dot tone={tone} live={tone === 'ok'} /> {tone}
            </span>
          ))}
        </div>
        <div class="row wrap">
          <span class="pill ok">202</span>
          {CODES.map((code) => (
            <Pill key={code} code={code} />
          ))}
          {['track', 'screen', 'revenue', 'plain'].map((type) => (
            <span key={type} class={`pill ${type}`}>
              {type}
            </span>
          ))}
          <span class="pill state near">Degraded</span> <kbd>esc</kbd>
        </div>
        <div class="row wrap">
          {APPS.map((app) => (
            <AppName key={app} id={app} />
          ))}
        </div>
      </div>
      <footer>A footer says what a figure means.</footer>
    </Card>
  )
}

function Controls(): JSX.Element {
  return (
    <Card title="Bars, fields, buttons, notes">
      <div class="body stack">
        <Bar share={0.62} ahead={0.81} />
        <Bar share={0.87} ahead={1} tone="near" />
        <Bar share={0.91} ahead={1} tone="fail" />
        <Bar share={null} />
        <div class="row wrap filter">
          <span class="field grow">
            <Icon name="find" />
            <input aria-label="A field" placeholder="app:shop" />
          </span>
          <span class="field fail">
            <input aria-label="A wrong field" value="color:red" />
          </span>
        </div>
        <div class="row wrap spread">
          <button type="button" class="button solid">
            Find
          </button>
          <button type="button" class="button" aria-pressed="true">
            Pressed
          </button>
          <button type="button" class="button small bare push" disabled>
            Disabled
          </button>
          <Copy text="01a20b3e-520f-7c41-9a1e-6db0e1f2a7c3" />
        </div>
        <Tabs
          label="Range"
          value="15m"
          options={[
            ['15m', '15 min'],
            ['1h', '1 h'],
          ]}
          onPick={nothing}
        />
        {(['ok', 'near', 'fail'] as const).map((tone) => (
          <Note key={tone} tone={tone}>
            A note of tone {tone}
          </Note>
        ))}
      </div>
    </Card>
  )
}

function Lists(): JSX.Element {
  return (
    <Card title="Lists, facts, code, an empty place">
      <List columns="78px minmax(0,1fr) 60px" heads={['Type', 'Name', '>Count']}>
        <div class="item batch">the line of a batch</div>
        <a class="item" href="#open" aria-current="true">
          <span class="pill track">track</span>
          <b class="cut">opened</b>
          <span class="number">1</span>
        </a>
        <a class="item" href="#rest">
          <span class="pill screen">screen</span>
          <b class="cut">at rest</b>
          <span class="number">2</span>
        </a>
      </List>
      <List two columns="minmax(0,1fr) 90px">
        <div class="item">
          Two lines
          <Spark cells={LOW} label="By minute" tone="near" />
        </div>
      </List>
      <div class="body stack">
        <Facts of={{ Batch: 'where it is' }} />
        <Json value={{ name: 'order_paid', price: 53.65 }} label="An event" />
        <div class="code">
          <header class="row">A body</header>
          <pre>
            <span class="line near">
              <span class="number dim">7</span>
              <span>
                <mark class="near">{coloured('"os": ""')}</mark>
              </span>
            </span>
          </pre>
        </div>
        <Empty icon="events" title="Nothing yet">
          <p>What will be here, and how.</p>
        </Empty>
      </div>
    </Card>
  )
}

function Plots(): JSX.Element {
  const shared = {
    times: ['14:02', 'now'],
    nameOf: (cell: number) => `cell ${cell}`,
    format: (value: number) => value.toFixed(1),
  }
  const series = [
    { name: 'Accepted', tone: 'ok', cells: CELLS },
    { name: '503', tone: 'fail', cells: LOW },
  ]
  return (
    <Card title="Plots and the line of time">
      <div class="body stack">
        <div class="row wrap">
          <Stat name="Accepted" value="28.4" unit="/s" />
          <Stat name="503" value="2.6" unit="/s" tone="fail" />
        </div>
        <Plot {...shared} label="Areas" kind="areas" series={series} pointer={[20, nothing]} />
        <Plot {...shared} label="Lines" kind="lines" series={series} height={80} />
        <Plot
          {...shared}
          label="Bars"
          kind="bars"
          series={series}
          pointer={[50, nothing]}
          height={120}
          paleBefore={12}
        />
        <ol class="way">
          {(['ok', 'near', 'client'] as const).map((tone) => (
            <li key={tone} class={tone}>
              A stop of tone {tone}
            </li>
          ))}
        </ol>
      </div>
    </Card>
  )
}

function Primitives(): JSX.Element {
  return (
    <main class="page">
      <Verdict more="And what proves it.">The answer of a page in a sentence.</Verdict>
      <div class="grid fold" style={vars({ columns: '1fr 1fr', align: 'start' })}>
        <Words />
        <Controls />
        <Lists />
        <Plots />
      </div>
    </main>
  )
}

render(<Primitives />, document.body)
