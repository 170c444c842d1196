"""Made-up reviews in several languages, one text a line."""

from __future__ import annotations

TEXTS = {
    "English": """
The battery of this phone is dead after two hours, and the shop does not answer my letters.
We had a lovely room with a view of the lake, but the breakfast was cold on both days.
My knee still hurts when I climb the stairs, so I will see the doctor again on Monday.
They sent the wrong size twice and then told me that it was my fault.
""",
    "German": """
Der Akku ist nach zwei Stunden leer, und der Laden antwortet nicht auf meine Briefe.
Wir hatten ein schönes Zimmer mit Blick auf den See, aber das Frühstück war an beiden Tagen kalt.
Mein Knie tut immer noch weh, wenn ich die Treppe steige, also gehe ich am Montag wieder zum Arzt.
Sie haben mir zweimal die falsche Größe geschickt und dann gesagt, dass es meine Schuld war.
""",
    "Dutch": """
De batterij van deze telefoon is na twee uur leeg en de winkel geeft geen antwoord op mijn brieven.
We hadden een mooie kamer met uitzicht op het meer, maar het ontbijt was op beide dagen koud.
Mijn knie doet nog steeds pijn als ik de trap op loop, dus ik ga maandag weer naar de dokter.
Ze hebben twee keer de verkeerde maat gestuurd en zeiden dan dat het mijn schuld was.
""",
    "French": """
La batterie de ce téléphone est vide après deux heures et le magasin ne répond pas à mes lettres.
Nous avions une belle chambre avec vue sur le lac, mais le petit déjeuner était froid les deux jours.
Mon genou me fait encore mal quand je monte les escaliers, donc je vais revoir le médecin lundi.
Ils ont envoyé deux fois la mauvaise taille et puis ils ont dit que c'était de ma faute.
""",
    "Spanish": """
La batería de este teléfono se acaba en dos horas y la tienda no contesta a mis cartas.
Tuvimos una habitación muy bonita con vistas al lago, pero el desayuno estaba frío los dos días.
Todavía me duele la rodilla cuando subo las escaleras, así que el lunes vuelvo al médico.
Me mandaron dos veces la talla que no era y después dijeron que la culpa era mía.
""",
    "Portuguese": """
A bateria deste telefone acaba em duas horas e a loja não responde às minhas cartas.
Tivemos um quarto muito bonito com vista para o lago, mas o café da manhã estava frio nos dois dias.
O meu joelho ainda dói quando subo a escada, por isso na segunda vou outra vez ao médico.
Mandaram duas vezes o tamanho errado e depois disseram que a culpa foi minha.
""",
    "Italian": """
La batteria di questo telefono si scarica dopo due ore e il negozio non risponde alle mie lettere.
Avevamo una bella camera con vista sul lago, ma la colazione era fredda tutti e due i giorni.
Il ginocchio mi fa ancora male quando salgo le scale, quindi lunedì torno dal medico.
Mi hanno mandato due volte la misura sbagliata e poi hanno detto che era colpa mia.
""",
    "Swedish": """
Batteriet är slut efter två timmar och affären svarar inte på mina brev.
Vi hade ett fint rum med utsikt över sjön, men frukosten var kall på båda dagarna.
Jag har fortfarande ont i knät när jag går i trappan, så jag ska till läkaren igen på måndag.
De skickade fel storlek två gånger och sa sedan att det var mitt fel.
""",
    "Polish": """
Bateria jest pusta po dwóch godzinach, a sklep nie odpowiada na moje listy.
Mieliśmy bardzo ładny pokój z widokiem na jezioro, ale śniadanie było zimne przez oba dni.
Kolano boli mnie jeszcze, gdy wchodzę po schodach, więc w poniedziałek idę do lekarza.
Dwa razy przysłali zły rozmiar, a teraz mówią, że to moja wina i że nic się nie da zrobić.
""",
    "Turkish": """
Bu telefonun pili iki saat sonra bitiyor ve mağaza benim mektuplarıma cevap vermiyor.
Göl manzaralı çok güzel bir odamız vardı ama kahvaltı iki gün de soğuktu.
Merdiven çıkarken dizim daha çok ağrıyor, bu yüzden pazartesi bir doktora gidiyorum.
İki kez yanlış beden gönderdiler, sonra da bunun için bana kızdılar, çok ayıp bir şey.
""",
    "Russian": """
Батарея садится через два часа, а магазин не отвечает на мои письма.
У нас был прекрасный номер с видом на озеро, но завтрак оба дня был холодный.
Колено всё ещё болит, когда я поднимаюсь по лестнице.
""",
    "Greek": """
Η μπαταρία τελειώνει μετά από δύο ώρες και το κατάστημα δεν απαντά στα γράμματά μου.
Είχαμε ένα όμορφο δωμάτιο με θέα στη λίμνη, αλλά το πρωινό ήταν κρύο.
""",
    "Arabic": """
البطارية تنفد بعد ساعتين والمتجر لا يرد على رسائلي.
كانت لدينا غرفة جميلة تطل على البحيرة لكن الفطور كان باردا في اليومين.
ما زالت ركبتي تؤلمني عندما أصعد السلم.
""",
    "Hebrew": """
הסוללה נגמרת אחרי שעתיים והחנות לא עונה למכתבים שלי.
היה לנו חדר יפה עם נוף לאגם אבל ארוחת הבוקר הייתה קרה בשני הימים.
הברך עדיין כואבת לי כשאני עולה במדרגות ולכן אלך שוב לרופא.
""",
    "Chinese": """
这部手机的电池两个小时就没电了，商店也不回我的信。
我们的房间很漂亮，可以看到湖，可是两天的早餐都是冷的。
他们两次寄错了尺码，还说是我的错。
""",
    "Japanese": """
この電話の電池は二時間でなくなり、店は手紙に返事をくれません。
湖の見えるきれいな部屋でしたが、朝食は二日とも冷たかったです。
サイズを二回も間違えて送ってきました。
""",
    "Korean": """
이 전화기의 배터리는 두 시간이면 닳고 가게는 편지에 답하지 않습니다.
호수가 보이는 예쁜 방이었지만 아침 식사는 이틀 모두 차가웠습니다.
""",
    "Hindi": """
इस फोन की बैटरी दो घंटे में खत्म हो जाती है और दुकान मेरे पत्रों का जवाब नहीं देती।
हमारा कमरा सुंदर था और झील दिखती थी, लेकिन दोनों दिन नाश्ता ठंडा था।
सीढ़ियाँ चढ़ते समय मेरे घुटने में अब भी दर्द होता है।
उन्होंने दो बार गलत नाप का कपड़ा भेजा और फिर कहा कि गलती मेरी थी।
""",
    "Thai": """
แบตเตอรี่ของโทรศัพท์เครื่องนี้หมดในสองชั่วโมงและร้านไม่ตอบจดหมายของฉัน
ห้องของเราสวยมากและมองเห็นทะเลสาบ แต่อาหารเช้าเย็นทั้งสองวัน
""",
}


def texts_in(language: str) -> list[str]:
    return TEXTS[language].strip().splitlines()
