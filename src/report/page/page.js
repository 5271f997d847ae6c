'use strict';
(() => {
  const data = JSON.parse(document.getElementById('data').textContent);
  // Everything from the data goes through here: text, never markup.
  const make = (tag, text, className) => {
    const element = document.createElement(tag);
    if (text !== undefined && text !== null) element.textContent = String(text);
    if (className) element.className = className;
    return element;
  };
  const number = (value) => Number(value).toLocaleString('en-US', { maximumFractionDigits: 3 });
  const time = (ms) => {
    if (ms === null || ms === undefined) return '';
    if (ms < 1) return Math.round(ms * 1000) + ' µs';
    if (ms < 1000) return Number(ms.toPrecision(3)) + ' ms';
    if (ms < 60000) return Number((ms / 1000).toPrecision(3)) + ' s';
    if (ms < 3600000) return Number((ms / 60000).toPrecision(3)) + ' min';
    return Number((ms / 3600000).toPrecision(3)) + ' h';
  };
  const label = (item) => item.tool === null || item.tool === undefined ? (item.method || '(no method)') : item.method + ':' + item.tool;
  const who = (item) => (item.asked_by === 'server' ? '← ' : '') + label(item);
  const total = (outcomes, names) => names.reduce((sum, name) => sum + (outcomes[name] || 0), 0);

  const sortable = (columns, rows, into, placeholder) => {
    const tools = make('div', undefined, 'tools');
    const search = make('input');
    search.type = 'search';
    search.placeholder = placeholder;
    search.setAttribute('aria-label', placeholder);
    tools.append(search);
    const table = make('table');
    const head = make('tr');
    const body = make('tbody');
    let sorted = { column: null, up: false };
    const draw = () => {
      const wanted = search.value.toLowerCase();
      const shown = rows.filter((row) => columns.some((column) => !column.numeric && String(column.value(row)).toLowerCase().includes(wanted)));
      if (sorted.column) {
        const value = sorted.column.value;
        const order = (a, b) => sorted.column.numeric ? (value(a) ?? -1) - (value(b) ?? -1) : String(value(a)).localeCompare(String(value(b)));
        shown.sort((a, b) => sorted.up ? order(a, b) : order(b, a));
      }
      body.replaceChildren(...shown.map((row) => {
        const line = make('tr');
        for (const column of columns) {
          const value = column.value(row);
          const text = column.show ? column.show(value, row) : (column.numeric ? (value === null || value === undefined ? '' : number(value)) : value);
          const cell = make('td', text, column.numeric ? 'number' : 'name');
          if (column.bad && value > 0) cell.classList.add('bad');
          line.append(cell);
        }
        return line;
      }));
      for (const [place, column] of columns.entries()) {
        const cell = head.children[place];
        cell.setAttribute('aria-sort', sorted.column !== column ? 'none' : sorted.up ? 'ascending' : 'descending');
      }
    };
    for (const column of columns) {
      const cell = make('th', undefined, column.numeric ? 'number' : undefined);
      const button = make('button', column.title);
      button.type = 'button';
      button.addEventListener('click', () => {
        sorted = { column, up: sorted.column === column ? !sorted.up : !column.numeric };
        draw();
      });
      cell.append(button);
      head.append(cell);
    }
    const top = make('thead');
    top.append(head);
    table.append(top, body);
    const scroll = make('div', undefined, 'scroll');
    scroll.append(table);
    if (rows.length > 8) into.append(tools);
    into.append(scroll);
    search.addEventListener('input', draw);
    draw();
  };

  const answered = ['answered', 'input-required', 'became-task'];
  const cancelled = ['cancelled-silent', 'cancelled-acknowledged', 'cancelled-raced', 'cancelled-ignored'];
  const hanging = ['orphaned', 'abandoned', 'overdue', 'answered-after-close'];
  const of = (names) => (row) => total(row.outcomes, names);
  const latency = (name) => (row) => row.latency_ms ? row.latency_ms[name] : null;
  const methodColumns = [
    { title: 'method', value: who },
    { title: 'requests', numeric: true, value: (row) => row.count },
    { title: 'answered', numeric: true, value: of(answered) },
    { title: 'failed', numeric: true, value: of(['failed']) },
    { title: 'cancelled', numeric: true, value: of(cancelled) },
    { title: 'hanging', numeric: true, bad: true, value: of(hanging) },
    ...['p50', 'p90', 'p99', 'max'].map((name) => ({ title: name, numeric: true, value: latency(name), show: time })),
  ];

  const grave = ['info', 'suspect', 'violation', 'leak'];
  const findings = (session, into) => {
    if (session.findings.length === 0) {
      into.append(make('p', 'No findings.', 'quiet'));
      return;
    }
    const tools = make('div', undefined, 'tools');
    const search = make('input');
    search.type = 'search';
    search.placeholder = 'filter findings';
    search.setAttribute('aria-label', 'filter findings');
    const least = make('select');
    least.setAttribute('aria-label', 'least severity');
    for (const name of grave) {
      const option = make('option', name === 'info' ? 'all severities' : name === 'leak' ? 'leaks only' : name + ' and graver');
      option.value = name;
      least.append(option);
    }
    const order = make('select');
    order.setAttribute('aria-label', 'order');
    for (const [value, title] of [['severity', 'gravest first'], ['count', 'most first'], ['rule', 'by rule']]) {
      const option = make('option', title);
      option.value = value;
      order.append(option);
    }
    tools.append(search, least, order);
    const list = make('div');
    const one = (found) => {
      const details = make('details', undefined, 'finding');
      const summary = make('summary');
      summary.append(make('span', found.severity, 'severity ' + found.severity), make('code', found.rule), make('span', ' × ' + number(found.count)));
      if (found.method) summary.append(make('span', '  ' + who(found)));
      const rule = data.rules[found.rule] || {};
      details.append(summary, make('p', found.sentence));
      if (found.transcript) {
        details.append(make('p', 'The events that prove it:', 'quiet'), make('pre', found.transcript));
      } else {
        details.append(make('p', 'Events that prove it: ' + found.events.join(', '), 'quiet'));
      }
      if (found.subjects.length > 0) details.append(make('p', 'Concerns: ' + found.subjects.join(', ') + (found.count > found.subjects.length ? ', …' : ''), 'quiet'));
      if (rule.explanation) {
        const more = make('details');
        more.append(make('summary', 'What the rule says, and what to do'), make('p', rule.explanation));
        details.append(more);
      }
      return details;
    };
    const draw = () => {
      const wanted = search.value.toLowerCase();
      const shown = session.findings.filter((found) => grave.indexOf(found.severity) >= grave.indexOf(least.value)
        && [found.rule, found.sentence, label(found)].join(' ').toLowerCase().includes(wanted));
      const orders = {
        severity: (a, b) => a.number - b.number,
        count: (a, b) => b.count - a.count,
        rule: (a, b) => a.rule.localeCompare(b.rule),
      };
      shown.sort(orders[order.value]);
      list.replaceChildren(...shown.map(one));
      if (shown.length === 0) list.append(make('p', 'None of ' + session.findings.length + ' findings match.', 'quiet'));
    };
    search.addEventListener('input', draw);
    least.addEventListener('change', draw);
    order.addEventListener('change', draw);
    into.append(tools, list);
    draw();
  };

  const sessionColumns = [
    { title: 'session', value: (row) => (row.number === null ? '' : row.number + ' ') + row.name },
    { title: 'server', value: (row) => row.server ? row.server.name + ' ' + (row.server.version || '') : '' },
    { title: 'started', value: (row) => (row.started_at || '').replace('T', ' ').replace(/\.\d+Z$/, '') },
    { title: 'protocol', value: (row) => row.protocol.name + ' ' + (row.protocol.version || '') },
    { title: 'requests', numeric: true, value: (row) => row.requests },
    { title: 'hanging', numeric: true, bad: true, value: (row) => row.orphaned_requests },
    { title: 'unresolved cancels', numeric: true, value: (row) => row.unresolved_cancels },
    { title: 'leaked', numeric: true, bad: true, value: (row) => row.leaked_work },
    { title: 'growth', value: (row) => row.growth.verdict },
  ];
  const serverColumns = [
    { title: 'server', value: (row) => row.server },
    { title: 'version', value: (row) => row.version || '' },
    { title: 'sessions', numeric: true, value: (row) => row.sessions },
    { title: 'requests', numeric: true, value: (row) => row.requests },
    { title: 'leaked', numeric: true, bad: true, value: (row) => row.leaked_work },
    { title: 'per 100 requests', numeric: true, value: (row) => row.leaked_per_hundred_requests },
    { title: 'against the release before', value: (row) => row.against_the_release_before || '' },
    { title: 'from session to session', value: (row) => row.course || '' },
  ];

  for (const [place, session] of data.sessions.entries()) {
    const methods = document.getElementById('methods-' + place);
    if (methods) sortable(methodColumns, session.methods, methods, 'filter methods');
    const found = document.getElementById('findings-' + place);
    if (found) findings(session, found);
  }
  const sessions = document.getElementById('sessions');
  if (sessions) sortable(sessionColumns, data.sessions, sessions, 'filter sessions');
  const servers = document.getElementById('servers');
  if (servers) sortable(serverColumns, data.servers, servers, 'filter servers');
  document.documentElement.dataset.ready = 'yes';
})();
