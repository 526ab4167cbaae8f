// Every text of a document is put in as text, never as markup.
const $ = (id) => document.getElementById(id);
const LINE_PX = 18;
let files = [];
let sent = [];

function made(tag, text, name) {
  const element = document.createElement(tag);
  if (text !== undefined) element.textContent = text;
  if (name) element.className = name;
  return element;
}

function given() {
  const text = $("text").value;
  return [...(text ? [new File([text], "paste", { type: "text/plain" })] : []), ...files];
}

function tellFiles() {
  $("files").textContent = files.map((file) => `${file.name} (${(file.size / 1e6).toFixed(1)} MB)`).join(", ");
}

function headers() {
  const token = $("token").value;
  return token ? { Authorization: `Bearer ${token}` } : {};
}

function form() {
  const body = new FormData();
  for (const file of sent) body.append("files", file, file.name);
  return body;
}

async function ask(path) {
  const response = await fetch(path, { method: "POST", body: form(), headers: headers() });
  if (response.ok) return response;
  if (response.status === 401) $("token-row").hidden = false;
  const problem = await response.json().catch(() => ({ error: response.statusText }));
  throw new Error(problem.error ?? `the server answered ${response.status}`);
}

async function* events(response) {
  const reader = response.body.pipeThrough(new TextDecoderStream()).getReader();
  let kept = "";
  for (;;) {
    const { value, done } = await reader.read();
    if (done) return;
    kept += value;
    const parts = kept.split("\n\n");
    kept = parts.pop();
    for (const part of parts) {
      const [name, data] = part.split("\n");
      yield [name.slice("event: ".length), JSON.parse(data.slice("data: ".length))];
    }
  }
}

async function diagnose() {
  sent = given();
  if (!sent.length) return tell("Paste a text or choose files first.", true);
  $("answer").hidden = $("viewer").hidden = true;
  tell("Sending ...");
  try {
    for await (const [name, data] of events(await ask("/api/diagnose/stream"))) {
      if (name === "working") tell(`Reading ${(data.bytes / 1e6).toFixed(1)} MB ...`);
      else if (name === "problem") throw new Error(data.error);
      else show(data);
    }
  } catch (error) {
    tell(error.message, true);
  }
}

function tell(text, bad = false) {
  $("status").textContent = text;
  $("status").className = bad ? "problem" : "soft";
}

function show(diagnosis) {
  const answer = $("answer");
  answer.replaceChildren();
  const causes = diagnosis.findings.filter((one) => one.role === "root" && one.severity !== "info");
  answer.append(made("h2", causes.length ? causes[0].title : "No known cause"));
  for (const one of causes) answer.append(finding(one, one === causes[0]));
  const rest = diagnosis.findings.filter((one) => !causes.includes(one));
  if (rest.length) {
    const folded = made("details");
    folded.append(made("summary", `${rest.length} more: consequences and what looks guilty and is not`));
    for (const one of rest) folded.append(finding(one, false));
    answer.append(folded);
  }
  for (const one of causes.length ? [] : diagnosis.unknown) answer.append(place(one));
  for (const one of diagnosis.questions.slice(0, 1)) {
    answer.append(made("h3", one.question), made("div", one.command, "command"));
  }
  answer.append(downloads(diagnosis));
  answer.hidden = false;
  const notes = [...diagnosis.notes, ...diagnosis.unreadable];
  tell(notes.length ? notes.join("; ") : `Read: ${diagnosis.coverage.map((one) => one.kind).join(", ")}`);
}

function finding(one, first) {
  const box = made("article", undefined, "finding");
  if (!first) box.append(made("h3", one.title));
  const words = [one.rule, one.effect.replaceAll("_", " "), one.severity, `${Math.round(one.confidence * 100)} %`];
  box.append(made("p", words.join(" · "), "soft"), made("p", one.summary));
  for (const evidence of one.evidence) box.append(place(evidence));
  if (one.gain) box.append(made("p", `Undoing it brought ${one.gain.change} ${one.gain.metric} (${one.gain.where})`, "soft"));
  for (const fix of one.fixes) {
    box.append(made("p", `Fix, risk ${fix.risk}${fix.restart ? ", restart" : ""}${fix.undo ? `; undo: ${fix.undo}` : ""}`));
    box.append(made("div", fix.command, "command"));
  }
  return box;
}

function place(evidence) {
  const button = made("button", `${evidence.document}:${evidence.line}  ${evidence.text.split("\n")[0].slice(0, 300)}`, "place");
  button.type = "button";
  button.addEventListener("click", () => open(evidence));
  return button;
}

function downloads(diagnosis) {
  const row = made("p", undefined, "row");
  const button = (text, act) => {
    const one = made("button", text);
    one.type = "button";
    one.addEventListener("click", act);
    row.append(one);
  };
  const json = () => save(new Blob([JSON.stringify(diagnosis, null, 2)], { type: "application/json" }), "diagnosis.json");
  const report = (kind) => async () => {
    try {
      save(await (await ask(`/api/report?format=${kind}`)).blob(), `incident.${kind}`);
    } catch (error) {
      tell(error.message, true);
    }
  };
  button("Postmortem (HTML)", report("html"));
  button("Postmortem (Markdown)", report("md"));
  button("JSON", json);
  return row;
}

function save(blob, name) {
  const link = made("a");
  link.href = URL.createObjectURL(blob);
  link.download = name;
  link.click();
  setTimeout(() => URL.revokeObjectURL(link.href), 10000);
}

// The viewer holds a log of any size: only the lines in sight are in the page.
let shown = { text: "", starts: [], first: 0, last: 0 };

async function open(evidence) {
  const file = sent.find((one) => evidence.document.startsWith(one.name.replace(/[^\w.+-]/g, "_"))) ?? sent[0];
  const text = await file.text();
  const starts = [0];
  for (let at = text.indexOf("\n"); at >= 0; at = text.indexOf("\n", at + 1)) starts.push(at + 1);
  shown = { text, starts, first: evidence.line, last: evidence.end_line ?? evidence.line };
  $("viewer-name").textContent = `${file.name}, line ${evidence.line}`;
  $("space").style.height = `${starts.length * LINE_PX}px`;
  $("viewer").hidden = false;
  $("lines").scrollTop = Math.max(0, (evidence.line - 8) * LINE_PX);
  draw();
  $("viewer").scrollIntoView({ block: "nearest" });
  $("lines").focus();
}

function draw() {
  const top = Math.max(0, Math.floor($("lines").scrollTop / LINE_PX) - 10);
  const count = Math.ceil($("lines").clientHeight / LINE_PX) + 20;
  const rows = [];
  for (let number = top + 1; number <= Math.min(shown.starts.length, top + count); number++) {
    const start = shown.starts[number - 1];
    const end = shown.starts[number] ?? shown.text.length + 1;
    const row = made("div", undefined, number >= shown.first && number <= shown.last ? "line hit" : "line");
    row.append(made("b", String(number)), made("span", shown.text.slice(start, Math.min(end - 1, start + 2000))));
    rows.push(row);
  }
  $("window").style.top = `${top * LINE_PX}px`;
  $("window").replaceChildren(...rows);
}

$("lines").addEventListener("scroll", draw);
$("form").addEventListener("submit", (event) => {
  event.preventDefault();
  diagnose();
});
$("pick").addEventListener("change", () => {
  files = [...files, ...$("pick").files];
  tellFiles();
});
$("clear").addEventListener("click", () => {
  files = [];
  $("text").value = "";
  $("answer").hidden = $("viewer").hidden = true;
  tellFiles();
  tell("");
});
for (const name of ["dragover", "dragleave", "drop"]) {
  document.addEventListener(name, (event) => {
    event.preventDefault();
    document.body.classList.toggle("over", name === "dragover");
  });
}
document.addEventListener("drop", (event) => {
  files = [...files, ...event.dataTransfer.files];
  tellFiles();
  diagnose();
});
