import { createClient } from '../dist/index.js'

const query = new URLSearchParams(location.search)
const say = (text) => document.getElementById('log').append(`${new Date().toLocaleTimeString()} ${text}\n`)
const sluice = createClient({
  url: query.get('url') ?? 'http://localhost:8080',
  appKey: query.get('key') ?? 'ak_demo',
  context: { app_version: '1.0.0' },
  onDropped: (reason, events) => say(`dropped ${events.length}: ${reason}`),
})
sluice.screen('example')
const on = (id, action) => document.getElementById(id).addEventListener('click', action)
on('track', () => sluice.track('click', { button: 'track' }))
on('revenue', () => sluice.revenue('purchase', { amount: 9.99, currency: 'EUR' }))
on('flush', async () => say((await sluice.flush()) ? 'all is stored' : 'some events still wait'))
on('opt-in', () => sluice.optIn())
on('opt-out', () => sluice.optOut())
