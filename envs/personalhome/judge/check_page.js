// Marks by item, kept by the browser and saved as a CSV file.
const cell = text => /[",\r\n]/.test(text) ? `"${text.replaceAll('"', '""')}"` : text;
const toCsv = rows => rows.map(row => row.map(cell).join(",") + "\r\n").join("");
const warn = event => event.preventDefault();
const inWords = (template, done, total) => template.replace("{done}", done).replace("{total}", total);

function start(page) {
  const forms = [...document.querySelectorAll("form.item")], columns = page.columns.split(","), key = `marks ${page.page}`;
  const marksOf = form => Object.fromEntries(new FormData(form));
  const row = form => [form.dataset.item, ...columns.slice(1).map(name => marksOf(form)[name] ?? "")];

  function kept() {
    try { return JSON.parse(localStorage.getItem(key) ?? "{}"); }
    catch { return {}; } // some browsers keep nothing for files; then marks last as long as the page
  }

  function keep() {
    const marks = Object.fromEntries(forms.map(form => [form.dataset.item, marksOf(form)]));
    try { localStorage.setItem(key, JSON.stringify(marks)); }
    catch { addEventListener("beforeunload", warn); } // they would be lost
  }

  function show() {
    const isDone = form => ["overall", "persona"].every(name => marksOf(form)[name]);
    for (const form of forms) form.classList.toggle("done", isDone(form));
    document.querySelector("#progress").value = inWords(page.progress, forms.filter(isDone).length, forms.length);
  }

  function save() {
    const file = new Blob(["\ufeff", toCsv([columns, ...forms.map(row)])], { type: "text/csv" });
    const link = Object.assign(document.createElement("a"), { href: URL.createObjectURL(file), download: "marks.csv" });
    link.click();
    URL.revokeObjectURL(link.href);
  }

  for (const form of forms) {
    for (const [name, value] of Object.entries(kept()[form.dataset.item] ?? {})) form.elements[name].value = value;
    form.addEventListener("input", () => { keep(); show(); });
    form.addEventListener("submit", event => event.preventDefault());
  }
  document.querySelector("#save").addEventListener("click", save);
  show();
}

if (typeof document !== "undefined") start(document.body.dataset);
