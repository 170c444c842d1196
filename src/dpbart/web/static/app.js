// Starts the parts of the page.

import { startAdvice } from "./advice.js";
import { get, useToken } from "./api.js";
import { startBudget } from "./budget.js";
import { countPeople, startColumns } from "./columns.js";
import { attempt, byId } from "./dom.js";
import { startExamples } from "./examples.js";
import { startGuide } from "./guide.js";
import { keepFor, look, startJobs } from "./jobs.js";
import { startKind } from "./kind.js";
import { startOptions } from "./options.js";
import { startPeople } from "./people.js";
import { startTabs } from "./tabs.js";
import { startTexts } from "./texts.js";

function start() {
  return attempt(async () => {
    const { ledger, limits } = await get("/healthz");
    byId("text-person-field").hidden = !ledger;
    byId("text-person").required = ledger;
    countPeople(ledger);
    keepFor(limits);
    await startOptions();
    await startBudget();
    byId("text-go").disabled = byId("file-go").disabled = false; // nothing can be sent before there is a budget
    await Promise.all([startExamples(), look()]);
  });
}

startTabs();
startTexts();
startKind();
startColumns();
startJobs();
startPeople();
startGuide();
startAdvice();
byId("token-form").onsubmit = (event) => {
  event.preventDefault();
  useToken(byId("token").value);
  byId("token").value = "";
  start();
};
start();
